"""What /v1/openapi.json says of the paths that are served without DRF; the settings name its hook.

Bodies come from the structs that read them (`bodies`), so that the two cannot differ; answers and events are written
down in `answers` and `events`, and the tests hold what is sent to them.
"""
