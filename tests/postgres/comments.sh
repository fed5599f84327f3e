#!/usr/bin/env bash
# What people call and read has a comment in the database, so that \df+ and \d+ explain it.
. "$(dirname "$0")/lib.sh"
cluster
keep
schema

# Public: a parameter without the prefix p_, or a name that docs/sql.md calls, and two of
# docs/postgres.md.
named=$(grep -oE 'holdfast\.[a-z_]+\(' "$ROOT/docs/sql.md" | sed 's/holdfast\.//; s/(//' | sort -u |
        paste -sd, -),upkeep,mend_sequences
public="SELECT p.oid, p.oid::regprocedure::text AS name FROM pg_proc p
    WHERE p.pronamespace IN ('holdfast'::regnamespace, 'holdfast_private'::regnamespace)
        AND p.prorettype <> 'trigger'::regtype
        AND (EXISTS (SELECT FROM unnest(p.proargnames,
            coalesce(p.proargmodes, array_fill('i'::\"char\", ARRAY[p.pronargs]))) a (name, mode)
                     WHERE a.mode IN ('i', 'b', 'v') AND a.name NOT LIKE 'p\\_%')
             OR (p.proname = ANY ('{$named}')
             AND NOT coalesce(p.proargnames[1] LIKE 'p\\_cron', false)))"
is "setup: there are more than thirty public functions" "SELECT count(*) > 30 FROM ($public) f" t
is "each public function has a comment" \
    "SELECT f.name FROM ($public) f WHERE obj_description(f.oid, 'pg_proc') IS NULL ORDER BY 1" ""
is "no function that is not public has a comment" "SELECT p.oid::regprocedure FROM pg_proc p
    WHERE p.pronamespace IN ('holdfast'::regnamespace, 'holdfast_private'::regnamespace)
    AND obj_description(p.oid, 'pg_proc') IS NOT NULL
        AND p.oid NOT IN (SELECT f.oid FROM ($public) f) ORDER BY 1" ""
is "each view for people and the type of stats have a comment" "SELECT v.name
    FROM unnest('{event_log,dead_letters,outcome_list,subscription_list,schedule_list,
                  grant_list,stats}'::text[]) v (name)
    WHERE coalesce(obj_description(('holdfast.' || v.name)::regclass, 'pg_class'),
                   obj_description(to_regtype('holdfast.' || v.name)::oid, 'pg_type')) IS NULL" ""
is "each column of the views for people has a comment" \
    "SELECT a.attrelid::regclass || '.' || a.attname FROM pg_attribute a
    WHERE (a.attrelid = 'holdfast.stats'::regclass OR a.attrelid IN (SELECT c.oid FROM pg_class c
        WHERE c.relnamespace = 'holdfast'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm')))
        AND a.attnum > 0 AND NOT a.attisdropped AND col_description(a.attrelid, a.attnum) IS NULL
            ORDER BY a.attnum" ""
is "there is nothing without a comment in the schema holdfast" \
    "SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'holdfast'::regnamespace
    AND c.relkind <> 'c' AND obj_description(c.oid, 'pg_class') IS NULL" ""
is "the schemas holdfast and holdfast_private have comments" \
    "SELECT obj_description('holdfast'::regnamespace, 'pg_namespace')
    LIKE 'Holdfast, a durable event bus.%', obj_description('holdfast_private'::regnamespace,
    'pg_namespace') LIKE 'The tables of Holdfast%'" 't|t'
done_testing
