"""The REST endpoints under /v1 that Django serves."""

from django.urls import path

from api.requests_view import RequestDetail, RequestList

urlpatterns = [
    path("requests", RequestList.as_view()),
    path("requests/<str:pk>", RequestDetail.as_view()),
]
