"""Log files of brokers: what the group coordinator and the authorizer wrote about groups."""
