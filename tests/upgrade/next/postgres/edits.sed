# A statement that needs the new function.
/^-- name: later_list/,/;$/s/FROM holdfast.read_delayed() d/& CROSS JOIN holdfast.next_note()/
# A function that says the same in other words.
s/has an empty segment/has an empty part/
# Each namespace has one more function of its own.
s/('lease_events_'),/('extra_'), &/
