-- Up to which position retention has taken events. What is missing behind it was lost (verify).
ALTER TABLE holdfast_namespaces ADD COLUMN retained_through INTEGER NOT NULL DEFAULT 0;
UPDATE holdfast_namespaces
    SET retained_through = ifnull(
        (SELECT min(e.place) - (holdfast_namespaces.id << 44) - 1 FROM holdfast_events e
            WHERE e.place > holdfast_namespaces.id << 44
                AND e.place <= (holdfast_namespaces.id << 44) + 17592186044415),
        head);
