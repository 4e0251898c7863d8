"""The demo's URL."""

from django.urls import path

from console.demo.view import show_demo

urlpatterns = [path("", show_demo)]
