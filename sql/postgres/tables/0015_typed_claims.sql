-- Claims read by the index on types. patterns: those of the claim; NULL: it may not read so. typed:
-- it has tried to.
ALTER TYPE holdfast_private.claiming ADD ATTRIBUTE patterns text[];
ALTER TYPE holdfast_private.claiming ADD ATTRIBUTE typed boolean;
