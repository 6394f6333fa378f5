"""Sites of `groupreplay serve` for the tests."""
