-- Hashes and ids of events, as src/base/hash.h has them, to the bit.

-- hash_partition of C: the first 8 bytes of MD5 without the sign.
CREATE OR REPLACE FUNCTION holdfast_private.hash_of(p_text text) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN ('x' || md5($1))::bit(64)::bigint & 9223372036854775807;

-- hash_content of C: 64 bits of MD5 over what the publisher gave. src/base/hash.h has the exact
-- bytes: an array is sent as 20 bytes about itself, and then what stands there of the texts between
-- emitted_at and the payload.
CREATE OR REPLACE FUNCTION holdfast_private.content_of(
    p_id uuid, p_emitted_at timestamptz, p_type text, p_key text, p_tenant text, p_metadata json,
    p_producer text, p_schedule_id text, p_payload json)
    RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN ('x' || md5(
        uuid_send($1) || timestamptz_send($2)
        || substr(array_send(ARRAY[convert_to($3, 'UTF8'), convert_to($4, 'UTF8'),
                                   convert_to($5, 'UTF8'), convert_to($6::text, 'UTF8'),
                                   convert_to($7, 'UTF8'), convert_to($8, 'UTF8')]), 21)
        || convert_to($9::text, 'UTF8')))::bit(64)::bigint;

-- hash_checksum of C: the content, and what the log has added to it. Of an event that is not in the
-- log yet p_position is 0 and p_entered_at NULL. It is inlined, because it does not claim to be
-- less volatile than extract; a call that is not costs a plan for each transaction.
CREATE OR REPLACE FUNCTION holdfast_private.checksum_of(p_content bigint, p_hash bigint,
                                                        p_position bigint, p_entered_at timestamptz,
                                                        p_key_version bigint)
    RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN $1 # $2 # $3 # coalesce((extract(epoch FROM $4) * 1000000)::bigint, 0) # coalesce($5, 0);

-- The product of two 64-bit numbers without what overflows.
CREATE OR REPLACE FUNCTION holdfast_private.hash_times(p_a bigint, p_b numeric) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT (CASE WHEN low >= 9223372036854775808 THEN low - 18446744073709551616
                 ELSE low END)::bigint
    FROM (SELECT mod((CASE WHEN $1 < 0 THEN $1 + 18446744073709551616::numeric
                           ELSE $1::numeric END) * $2, 18446744073709551616) AS low) product;
END;

-- hash_mix of C.
CREATE OR REPLACE FUNCTION holdfast_private.hash_mix(p_value bigint) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v bigint := p_value;
BEGIN
    v := v # ((v >> 30) & 17179869183);
    v := holdfast_private.hash_times(v, 13787848793156543929);
    v := v # ((v >> 27) & 137438953471);
    v := holdfast_private.hash_times(v, 10723151780598845931);
    RETURN v # ((v >> 31) & 8589934591);
END
$$;

-- hash_lane of C: the unit of order of an event.
CREATE OR REPLACE FUNCTION holdfast_private.lane_of(p_tenant text, p_key text, p_id uuid)
    RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_bytes bytea := '';
    v_part  text;
    v_hex   text;
    v_size  integer;
BEGIN
    IF p_tenant IS NULL AND p_key IS NULL THEN
        v_hex := replace(p_id::text, '-', '');
        RETURN holdfast_private.hash_mix(('x' || substr(v_hex, 1, 16))::bit(64)::bigint
                                         # holdfast_private.hash_mix(
                                             ('x' || substr(v_hex, 17, 16))::bit(64)::bigint));
    END IF;
    FOREACH v_part IN ARRAY ARRAY[p_tenant, p_key] LOOP
        IF v_part IS NULL THEN
            v_bytes := v_bytes || decode('00', 'hex');
        ELSE
            v_size := octet_length(v_part);
            v_bytes := v_bytes || decode('01', 'hex')
                || set_byte(
                    set_byte(set_byte(set_byte(decode('0000000000000000', 'hex'), 0, v_size & 255),
               1, v_size >> 8 & 255), 2, v_size >> 16 & 255), 3, v_size >> 24 & 255)
                || convert_to(v_part, 'UTF8');
        END IF;
    END LOOP;
    RETURN ('x' || substr(md5(v_bytes), 1, 16))::bit(64)::bigint;
END
$$;

-- us_of: a time in microseconds since 1970. It computes in floating point, which is exact until the
-- year 2106.
CREATE OR REPLACE FUNCTION holdfast_private.us_of(p_at timestamptz) RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN (date_part('epoch', $1) * 1000000)::bigint;

-- A new UUID v7 for a time in microseconds since 1970.
CREATE OR REPLACE FUNCTION holdfast_private.id_at(p_us bigint) RETURNS uuid
    LANGUAGE sql VOLATILE PARALLEL SAFE
    RETURN overlay(gen_random_uuid()::text
                   PLACING lpad(to_hex($1 / 1000 * 16 + 7), 13, '0') FROM 1 FOR 15)::uuid;

-- The same for a time.
CREATE OR REPLACE FUNCTION holdfast_private.new_id(p_at timestamptz) RETURNS uuid
    LANGUAGE sql VOLATILE PARALLEL SAFE
    RETURN holdfast_private.id_at(holdfast_private.us_of($1));

-- The time inside an id, to the millisecond; NULL if it is not version 7.
CREATE OR REPLACE FUNCTION holdfast.id_time(p_id uuid) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN substr($1::text, 15, 1) = '7'
                    AND substr($1::text, 20, 1) IN ('8', '9', 'a', 'b')
        THEN
        to_timestamp(('x' || substr($1::text, 1, 8) || substr($1::text, 10, 4))::bit(48)::bigint
                     / 1000::double precision) END;
