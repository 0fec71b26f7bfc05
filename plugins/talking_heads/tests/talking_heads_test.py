from zoo import plugin, recipe
from zoo.testing import check_attention
from zoo.training.check import check

plugin.load("zoo_talking_heads")


def test_the_kind_conforms():
    report = check_attention("talking_heads")
    assert report, report


def test_the_recipes_can_be_trained():
    names = [name for name in recipe.list_recipes() if name.startswith("talking_heads/")]
    assert names
    for name in names:
        assert f"zoo train --recipe={name}" in recipe.docstring(recipe.find(name))
        assert check(recipe.load(name)).model.attention == "talking_heads"
