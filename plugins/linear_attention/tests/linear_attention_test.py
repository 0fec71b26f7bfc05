from zoo import plugin, recipe
from zoo.testing import check_attention
from zoo.training.check import check

plugin.load("zoo_linear_attention")


def test_the_kind_conforms():
    report = check_attention("linear_attention")
    assert report, report


def test_the_recipes_can_be_trained():
    names = [name for name in recipe.list_recipes() if name.startswith("linear_attention/")]
    assert names
    for name in names:
        assert f"zoo train --recipe={name}" in recipe.docstring(recipe.find(name))
        assert check(recipe.load(name)).model.attention == "linear_attention"
