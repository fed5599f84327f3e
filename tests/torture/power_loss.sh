#!/bin/sh
# The power fails after some of the operations; what was acknowledged must be there.
exec "$BUILD/tests/torture/power_loss" --images 60
