"""The REST endpoints under /v1 that Django serves."""

from django.urls import path

from api.batches_view import BatchCancel, BatchDetail, BatchList, BatchResults
from api.keys_view import KeyDetail, KeyList, KeyRotation, OwnOrganization
from api.requests_view import RequestDetail, RequestList
from api.schema_view import ShowSchema
from api.usage_view import Usage

urlpatterns = [
    path("messages/batches", BatchList.as_view()),
    path("messages/batches/<slug:pk>", BatchDetail.as_view()),
    path("messages/batches/<slug:pk>/cancel", BatchCancel.as_view()),
    path("messages/batches/<slug:pk>/results", BatchResults.as_view(), name="batch-results"),
    path("usage", Usage.as_view()),
    path("requests", RequestList.as_view()),
    path("requests/<slug:pk>", RequestDetail.as_view()),
    path("organization", OwnOrganization.as_view()),
    path("organization/keys", KeyList.as_view()),
    path("organization/keys/<slug:pk>", KeyDetail.as_view()),
    path("organization/keys/<slug:pk>/rotate", KeyRotation.as_view()),
    path("openapi.json", ShowSchema.as_view()),
]
