-- Rates of subscriptions: at most so many deliveries begin in a time, in all processes together.
--
-- A bucket of tokens that fills steadily is one time, when it was empty (src/base/limiter.h, whose
-- limiter_take this is). Processes take a few tokens at a time, some times a second, so its row is
-- not where they queue; and a process that dies has lost at most what it had taken.

-- rate_take: takes up to p_want (negative: gives so many back) and locks the row to the end of the
-- transaction, if there are any. wait_us: until there are more; 0: all was granted.
CREATE OR REPLACE FUNCTION holdfast_private.rate_take(p_subscription_id bigint, p_events bigint,
                                                      p_period_us bigint, p_want bigint,
                                                      OUT granted bigint, OUT wait_us bigint)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_token_ns bigint := p_period_us * 1000 / p_events;
    v_token    interval := (v_token_ns + 999) / 1000 * interval '1 us';
    v_empty    timestamptz;
    v_now      timestamptz;
    v_tokens   bigint;
    v_ahead    boolean;
BEGIN
    SELECT r.empty_at INTO v_empty FROM rates r WHERE r.subscription_id = p_subscription_id
        FOR NO KEY UPDATE;
    v_now := clock_timestamp();
    IF NOT FOUND THEN
        INSERT INTO rates (subscription_id, empty_at) VALUES (p_subscription_id, v_now - v_token)
            ON CONFLICT (subscription_id) DO NOTHING;
        SELECT r.empty_at INTO v_empty FROM rates r WHERE r.subscription_id = p_subscription_id
            FOR NO KEY UPDATE;
        v_now := clock_timestamp();
    END IF;
    v_ahead := v_empty > v_now; -- the clock was set back: or the bucket stays empty until then
    v_empty := greatest(least(v_empty, v_now),
                        v_now - greatest(v_token, LIMITER_BURST_US * interval '1 us'));
    v_tokens := trunc(extract(epoch FROM v_now - v_empty) * 1000000000 / v_token_ns);
    granted := least(p_want, v_tokens);
    wait_us := 0;
    IF granted < p_want THEN
        wait_us := extract(epoch FROM v_empty - v_now) * 1000000
                   + (v_tokens + 1) * v_token_ns / 1000 + 1;
    END IF;
    IF granted <> 0 OR v_ahead THEN
        UPDATE rates r SET empty_at = v_empty + granted * v_token_ns / 1000 * interval '1 us'
            WHERE r.subscription_id = p_subscription_id;
    END IF;
END
$$;

-- change_rate_take: `struct rate_take`. HF_NOTFOUND.
CREATE OR REPLACE FUNCTION holdfast.change_rate_take(p_namespace_id integer,
                                                     p_subscription_id bigint, p_events bigint,
                                                     p_period_us bigint, p_want bigint,
                                                     OUT status integer, OUT message text,
                                                     OUT granted bigint, OUT wait_us bigint,
                                                     p_ticket bytea DEFAULT holdfast.ticket())
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, holdfast_private, holdfast, pg_temp
AS $$
DECLARE
    v_taken record;
BEGIN
    status := HF_OK;
    PERFORM consumer_admit(p_ticket, p_namespace_id, NULL, NULL);
    IF (p_events BETWEEN 1 AND 1000000 AND p_period_us BETWEEN 1000 AND 86400000000
        AND p_want BETWEEN -1000000 AND 1000000) IS NOT TRUE THEN
        RAISE EXCEPTION 'a rate of % in % us is outside its limits', p_events, p_period_us
            USING ERRCODE = 'HF001';
    END IF;
    IF NOT EXISTS (SELECT FROM subscriptions s
                   WHERE s.id = p_subscription_id AND s.namespace_id = p_namespace_id) THEN
        status := HF_NOTFOUND;
        message := 'there is no such subscription';
        RETURN;
    END IF;
    v_taken := rate_take(p_subscription_id, p_events, p_period_us, p_want);
    granted := v_taken.granted;
    wait_us := v_taken.wait_us;
END
$$;
