"""Addresses of the shop."""

from django.urls import path

from example_project.shop import views

urlpatterns = [
    path("", views.home, name="home"),
    path("orders/<str:number>/", views.order, name="order"),
]
