#!/usr/bin/env bash
# What people call and read has a comment in the database, so that \df+ and \d+ explain it.
. "$(dirname "$0")/lib.sh"
cluster
schema

# Public: a parameter without the prefix p_, or a name that docs/sql.md calls, and two of docs/postgres.md.
named=$(grep -oE 'holdfast\.[a-z_]+\(' "$ROOT/docs/sql.md" | sed 's/holdfast\.//; s/(//' | sort -u | paste -sd, -),upkeep,mend_sequences
public="SELECT p.oid, p.oid::regprocedure::text AS name FROM pg_proc p
    WHERE p.pronamespace = 'holdfast'::regnamespace AND p.prorettype <> 'trigger'::regtype
        AND (EXISTS (SELECT FROM unnest(p.proargnames, coalesce(p.proargmodes, array_fill('i'::\"char\", ARRAY[p.pronargs]))) a (name, mode)
                     WHERE a.mode IN ('i', 'b', 'v') AND a.name NOT LIKE 'p\\_%')
             OR (p.proname = ANY ('{$named}') AND NOT coalesce(p.proargnames[1] LIKE 'p\\_cron', false)))"
is "there are public functions" "SELECT count(*) > 30 FROM ($public) f" t
is "each has a comment" "SELECT f.name FROM ($public) f WHERE obj_description(f.oid, 'pg_proc') IS NULL ORDER BY 1" ""
is "and no other has one" "SELECT p.oid::regprocedure FROM pg_proc p WHERE p.pronamespace = 'holdfast'::regnamespace
    AND obj_description(p.oid, 'pg_proc') IS NOT NULL AND p.oid NOT IN (SELECT f.oid FROM ($public) f) ORDER BY 1" ""
is "so have the views for people, and what stats answers" "SELECT v.name FROM unnest('{event_log,dead_letters,stats}'::text[]) v (name)
    WHERE coalesce(obj_description(('holdfast.' || v.name)::regclass, 'pg_class'),
                   obj_description(to_regtype('holdfast.' || v.name)::oid, 'pg_type')) IS NULL" ""
is "with all their columns" "SELECT a.attrelid::regclass || '.' || a.attname FROM pg_attribute a
    WHERE a.attrelid IN ('holdfast.event_log'::regclass, 'holdfast.dead_letters'::regclass, 'holdfast.stats'::regclass)
        AND a.attnum > 0 AND NOT a.attisdropped AND col_description(a.attrelid, a.attnum) IS NULL ORDER BY a.attnum" ""
is "and the schema itself" "SELECT obj_description('holdfast'::regnamespace, 'pg_namespace') LIKE 'Holdfast, a durable event bus.%'" t
done_testing
