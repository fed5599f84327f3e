#!/usr/bin/env bash
# Every right that a role gets is explained by a line of the table in docs/postgres.md, and every
# line is true.
. "$(dirname "$0")/lib.sh"
cluster
keep
schema
parts="viewer publisher consumer owner"

# What the server knows, as "kind name part right"; the part of namespace 1 is printed as <n>. What
# PUBLIC has by default is printed once.
catalog() {
    sql "WITH schemas AS (SELECT n.oid, n.nspname, n.nspacl, CASE n.nspname WHEN 'holdfast' THEN ''
        ELSE 'of' || n.nspname END AS of
                          FROM pg_namespace n WHERE n.nspname IN ('holdfast', 'holdfast_private')),
        acl (kind, name, acl) AS (
            SELECT 'schema', n.nspname::text, n.nspacl FROM schemas n
            UNION ALL
            SELECT CASE c.relkind WHEN 'S' THEN 'sequences' WHEN 'v' THEN 'views' ELSE 'tables' END
                || n.of, c.relname, c.relacl
            FROM pg_class c JOIN schemas n ON n.oid = c.relnamespace
            UNION ALL
            SELECT 'columns' || n.of, c.relname || '.' || a.attname, a.attacl
            FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
                JOIN schemas n ON n.oid = c.relnamespace
            UNION ALL
            SELECT 'functions' || n.of, CASE WHEN x.grantee = 0 AND NOT p.prosecdef
                THEN 'all that run with their caller''s rights' ELSE p.proname END,
                   ARRAY[makeaclitem(x.grantee, p.proowner, x.privilege_type, x.is_grantable)]
            FROM pg_proc p JOIN schemas n ON n.oid = p.pronamespace,
                aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) x
            UNION ALL
            SELECT 'types' || n.of, 'all', coalesce(t.typacl, acldefault('T', t.typowner))
                FROM pg_type t JOIN schemas n ON n.oid = t.typnamespace
            UNION ALL
            SELECT 'defaults', d.defaclobjtype::text, d.defaclacl FROM pg_default_acl d)
        SELECT DISTINCT concat_ws(' ', a.kind, regexp_replace(a.name,
            '^(events|append|claim)_1(_position|_sleep|\..*)?\$', '\1_<n>\2'),
                                  CASE WHEN x.grantee = 0 THEN 'PUBLIC'
                                  ELSE x.grantee::regrole::text END, x.privilege_type)
               || CASE WHEN x.is_grantable THEN ' with grant option' ELSE '' END
        FROM acl a, aclexplode(a.acl) x WHERE x.grantee <> 'holdfast'::regrole" | sort
}
# What the document says, in the same form. With "PUBLIC" as an argument: only that.
document() {
    awk -F'|' -v parts="$1" '
        /^\| on \| of \| part \| right \| why \|$/ { inside = 1; next }
        inside && !/^\|/ { inside = 0 }
        inside && !/^\|---/ {
            kind = $2; gsub(/`/, "", kind); names = $3; who = $4; right = $5
            gsub(/ /, "", kind); gsub(/^ +| +$|`/, "", names)
            gsub(/ /, "", who); gsub(/ /, "", right)
            if (who == "everypart") who = "viewer,publisher,consumer,owner"
            count = split(names, name, /, /); whos = split(who, grantee, ",")
            for (i = 1; i <= count; i++)
                for (j = 1; j <= whos; j++)
                    if (parts == "" || grantee[j] == parts) print kind, name[i], grantee[j], right
        }' "$ROOT/docs/postgres.md" | sort
}

ok "setup: the table of rights in docs/postgres.md is found" \
    like "*schema holdfast viewer USAGE*" "$(document "")"
ok "a new schema gives no role more rights than PUBLIC" same "$(document PUBLIC)" \
    "$(catalog)"
if [ "$(sql "SELECT current_setting('server_version_num')::integer < 150000")" = t ]; then
    done_testing
    exit
fi
for part in $parts; do
    sql "CREATE ROLE $part LOGIN" >/dev/null
    sql "SELECT holdfast.namespace_grant('$part', 'default', '$part')" >/dev/null
done
rights=$(mktemp)
catalog >"$rights.found"
document "" >"$rights.told"
ok "every right of every part is explained in docs/postgres.md" same "" \
    "$(comm -23 "$rights.found" "$rights.told")"
ok "docs/postgres.md has no right that the parts do not have" same "" \
    "$(comm -13 "$rights.found" "$rights.told")"
sql "SELECT FROM holdfast.publish('default', 't')" >/dev/null
sql "SELECT FROM holdfast.create_namespace('other')" >/dev/null
catalog >"$rights.found"
ok "a new namespace gives the parts of another one no rights" \
    same "" "$(comm -23 "$rights.found" "$rights.told")"
for part in $parts; do
    sql "SELECT holdfast.namespace_revoke('$part', 'default', '$part')" >/dev/null
done
ok "no right is left after all parts are revoked" same "$(document PUBLIC)" "$(catalog)"
# publish_as has a schema before every name instead: tests/postgres/views.sh.
is "every SECURITY DEFINER function but publish_as names its search_path" \
    "SELECT string_agg(p.proname, ' ') FROM pg_proc p WHERE p.pronamespace
    IN ('holdfast'::regnamespace, 'holdfast_private'::regnamespace) AND p.prosecdef
    AND NOT coalesce(p.proconfig, '{}')
        @> '{\"search_path=pg_catalog, holdfast_private, holdfast, pg_temp\"}'" "publish_as"
# cron_next reads nothing.
is "every SECURITY DEFINER function that roles may call checks the caller" \
    "SELECT string_agg(p.proname, ' ') FROM pg_proc p WHERE p.pronamespace
    IN ('holdfast'::regnamespace, 'holdfast_private'::regnamespace) AND p.prosecdef
    AND p.prorettype <> 'trigger'::regtype AND p.proname <> 'cron_next'
     AND p.prosrc !~ '(admit|enter|holder|pull_find|schedule_find|subscription_pause)\(p_ticket'" ""
rm -f "$rights" "$rights.found" "$rights.told"
done_testing
