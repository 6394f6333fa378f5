"""Events, documents and schemas as they are written to the sink."""
