"""The REST endpoints under /v1 that Django serves."""

from django.urls import path

from api.keys_view import KeyDetail, KeyList, KeyRotation, OwnOrganization
from api.requests_view import RequestDetail, RequestList

urlpatterns = [
    path("organization", OwnOrganization.as_view()),
    path("organization/keys", KeyList.as_view()),
    path("organization/keys/<str:pk>", KeyDetail.as_view()),
    path("organization/keys/<str:pk>/rotate", KeyRotation.as_view()),
    path("requests", RequestList.as_view()),
    path("requests/<str:pk>", RequestDetail.as_view()),
]
