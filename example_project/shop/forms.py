"""The order form."""

from django import forms

from example_project.shop.models import Item

CARDS = [
    ("tok_visa", "a card that works"),
    ("tok_declined", "a card that the bank declines"),
]


class OrderForm(forms.Form):
    """What a customer fills in."""

    name = forms.CharField(max_length=200, strip=False)
    email = forms.EmailField(label="E-mail")
    item = forms.ModelChoiceField(Item.objects.all(), empty_label=None)
    quantity = forms.IntegerField(min_value=1, max_value=1_000_000, initial=1)
    card = forms.ChoiceField(choices=CARDS)
