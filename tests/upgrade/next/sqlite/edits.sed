# A statement that needs the new table.
/^-- name: later_list/,/;$/s/FROM holdfast_delayed/& LEFT JOIN holdfast_next ON note = key/
