-- Making views and comments anew, without locks if they are as they are to be.
--
-- Functions are applied to a database in which others work, and a function is replaced without a
-- lock. To replace a view, or to comment on a column, is to wait for every transaction that has
-- read it, and all others wait behind. A role that has a part in a namespace could let that go on
-- for as long as it likes.

-- comment_make: sets the comments of a view, or of a type with columns, that differ. p_comments:
-- those of its columns; that of itself has the name ''.
CREATE OR REPLACE FUNCTION holdfast_private.comment_make(p_relation regclass, p_comments json)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_kind text := (SELECT CASE c.relkind WHEN 'v' THEN 'VIEW' ELSE 'TYPE' END
                    FROM pg_class c WHERE c.oid = p_relation);
    v_line record;
BEGIN
    FOR v_line IN
        SELECT c.key AS name, c.value AS text, CASE
            WHEN c.key <> '' THEN (SELECT col_description(a.attrelid, a.attnum) FROM pg_attribute a
                                   WHERE a.attrelid = p_relation AND a.attname = c.key)
            WHEN v_kind = 'VIEW' THEN obj_description(p_relation, 'pg_class')
            ELSE (SELECT obj_description(t.oid, 'pg_type') FROM pg_type t
                  WHERE t.typrelid = p_relation) END
            AS before
        FROM json_each_text(p_comments) c LOOP
        CONTINUE WHEN v_line.text = v_line.before;
        EXECUTE CASE WHEN v_line.name = ''
                         THEN format('COMMENT ON %s %s IS %L', v_kind, p_relation, v_line.text)
            ELSE format('COMMENT ON COLUMN %s.%I IS %L', p_relation, v_line.name, v_line.text) END;
    END LOOP;
END
$$;

-- view_make: makes a view, or makes it anew if another query or other options (WITH) are wanted
-- than it was made with, which is recorded: to read its definition is to wait for a lock on it,
-- too.
CREATE OR REPLACE FUNCTION holdfast_private.view_make(p_view text, p_options text, p_query text)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_name   text := 'view ' || p_view;
    v_digest text := md5(p_options || ' ' || p_query);
    v_make   text := format('CREATE OR REPLACE VIEW %s%s AS %s', p_view,
                            CASE WHEN p_options = '' THEN '' ELSE format(' WITH (%s)', p_options)
                                 END, p_query);
BEGIN
    IF to_regclass(p_view) IS NULL
       OR NOT EXISTS (SELECT FROM meta m WHERE m.name = v_name AND m.value = v_digest) THEN
        BEGIN
            EXECUTE v_make;
        EXCEPTION WHEN invalid_table_definition THEN -- other columns; grants follow in finish.sql
            EXECUTE format('DROP VIEW %s', p_view);
            EXECUTE v_make;
        END;
        INSERT INTO meta (name, value) VALUES (v_name, v_digest)
            ON CONFLICT (name) DO UPDATE SET value = excluded.value;
    END IF;
END
$$;

-- view_text: the definition of a view; NULL: it is locked.
CREATE OR REPLACE FUNCTION holdfast.view_text(p_view oid) RETURNS text
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
    SET lock_timeout = '200ms'
AS $$
BEGIN
    RETURN pg_get_viewdef(p_view);
EXCEPTION WHEN lock_not_available THEN
    RETURN NULL;
END
$$;

-- reader_rights: the option of a view that is read with the rights of its reader, as far as the
-- server can do that (15 and newer; before, nothing can be granted).
CREATE OR REPLACE FUNCTION holdfast_private.reader_rights() RETURNS text
    LANGUAGE sql STABLE
    RETURN CASE WHEN current_setting('server_version_num')::integer >= 150000
                    THEN 'security_invoker = on'
        ELSE '' END;
