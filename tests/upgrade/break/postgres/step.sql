-- Neither works with what the other expects: nothing is declared.
CREATE TABLE holdfast_private.break (broken integer PRIMARY KEY);
