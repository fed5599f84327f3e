-- Neither works with what the other expects: nothing is declared.
CREATE TABLE holdfast_break (broken INTEGER PRIMARY KEY) STRICT;
