"""URLs of the console, under /admin/console/."""

from django.urls import path

from console.live.cancel_views import cancel_streams
from console.live.views import show_stream, show_streams
from console.processes.views import drain, show_processes
from console.safety.views import show_safety
from console.slo.views import show_latency, show_slo
from console.views import show_index

app_name = "console"
urlpatterns = [
    path("", show_index, name="index"),
    path("streams/", show_streams, name="streams"),
    path("streams/cancel/", cancel_streams, name="streams-cancel"),
    path("streams/<str:message_id>/", show_stream, name="streams-one"),
    path("slo/", show_slo, name="slo"),
    path("latency/", show_latency, name="latency"),
    path("safety/", show_safety, name="safety"),
    path("workers/", show_processes, name="workers"),
    path("workers/<str:process_id>/drain/", drain, name="workers-drain"),
]
