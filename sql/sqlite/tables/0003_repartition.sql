-- A request for another number of partitions; it is fulfilled when all are equally far. NULL: none.
ALTER TABLE holdfast_subscriptions ADD COLUMN wanted INTEGER;
