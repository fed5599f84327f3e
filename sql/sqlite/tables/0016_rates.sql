-- The rate of a subscription: when its bucket of tokens was empty (src/base/limiter.h). A row is
-- made when the first process takes from it.
CREATE TABLE holdfast_rates (
    subscription_id INTEGER PRIMARY KEY,
    empty_at        INTEGER NOT NULL
) STRICT;
