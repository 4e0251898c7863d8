"""The schema at /v1/openapi.json: what DRF's views say of themselves, with what a hook in the settings adds."""
