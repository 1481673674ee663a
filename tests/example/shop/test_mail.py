from email import message_from_bytes, policy
from pathlib import Path

import pytest

from example_project.shop import mail
from example_project.shop.data.make_orders import NAMES
from example_project.shop.models import as_amount
from tests.example.shop.conftest import mail_by


def only_mail(settings):
    (file,) = Path(settings.SHOP_MAIL_FOLDER).glob("*.eml")
    return message_from_bytes(file.read_bytes(), policy=policy.default)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_arrives_as_it_was_written(settings, name):
    text = mail.TEXT.format(customer=name, order="0001", charge="ch_1", amount=as_amount(123_456_789_012))
    mail.send_receipt("key", "customer@shop.example", text)
    sent = only_mail(settings)
    assert sent.get_content() == text
    assert f"Dear {name},\n" in text
    assert "1234567890.12" in text


def test_a_mail_is_found_after_it_was_sent_and_not_before():
    about = ("zoe@shop.example", "Dear Zoë")
    assert mail.find_receipt("key", *about) is None
    sent = mail.send_receipt("key", *about)
    assert mail.find_receipt("key", *about) == sent
    assert mail.find_receipt("another key", *about) is None


def test_a_mail_sent_twice_shows_as_two():
    for _ in range(2):
        mail.send_receipt("key", "zoe@shop.example", "Dear Zoë")
    assert mail.sent_mails() == {mail.message_id("key"): 2}


def test_a_backend_without_a_memory_leaves_the_question_open(settings):
    mail_by(settings, "django.core.mail.backends.locmem.EmailBackend")
    with pytest.raises(LookupError, match="locmem"):
        mail.find_receipt("key")
