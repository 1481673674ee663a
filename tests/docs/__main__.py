"""Write what pages have from the code: `python -m tests.docs`."""

import os

import django

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()

    from tests.docs.listing import write

    write()
