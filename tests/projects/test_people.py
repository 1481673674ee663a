"""Projects with users of their own."""

PEOPLE = """
import uuid
from django.contrib.auth.models import AbstractBaseUser, BaseUserManager, PermissionsMixin
from django.db import models


class People(BaseUserManager):
    def create_superuser(self, email, password):
        person = self.model(email=email, is_staff=True, is_superuser=True)
        person.set_password(password)
        person.save(using=self._db)
        return person


class Person(AbstractBaseUser, PermissionsMixin):
    key = models.UUIDField(primary_key=True, default=uuid.uuid4)
    email = models.TextField(unique=True)
    is_staff = models.BooleanField(default=False)
    USERNAME_FIELD = "email"
    objects = People()

    def get_username(self):
        return self.email
"""


def test_a_user_model_of_the_project(project) -> None:
    project.write("people/__init__.py", "")
    project.write("people/models.py", PEOPLE)
    project.with_admin().settings('INSTALLED_APPS.insert(0, "people")\nAUTH_USER_MODEL = "people.Person"\n')
    project.write("people/migrations/__init__.py", "")
    project.manage("makemigrations", "people")
    project.play("check", "migrate", "work", "admin", "settle", "admin")
