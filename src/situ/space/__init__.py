"""Places and regions, which events lie in which region, and events by place and time."""
