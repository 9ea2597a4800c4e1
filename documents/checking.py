"""Validates a document against its pydantic model and explains an error in one sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, TypeVar

from pydantic import ConfigDict, ValidationError, model_validator
from pydantic_core import CoreSchema, core_schema

from documents.built_when_used import BuiltWhenUsed
from documents.errors import InputError, did_you_mean, nearest, show
from documents.other_names import usual_name
from documents.sentences import Sentence, joined

Schema = Mapping[str, Any]
_ALIKE = 0.75  # similarity of a key here that is suggested together with the same name elsewhere
_TOLD_PLACES, _DEEPEST = 3, 4


class Section(BuiltWhenUsed):
    """A mapping of a document: unknown keys, numbers as text and NaN are errors; null counts as left out."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        return {key: item for key, item in value.items() if item is not None or key not in cls.model_fields}


class LenientSection(Section):
    """A section of a document that others write: unknown keys are ignored."""

    model_config = ConfigDict(extra="ignore")


class OneOf:
    """Text that is one of ``names``, which are an enum's own labels."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def __get_pydantic_core_schema__(self, source: object, handler: object) -> CoreSchema:
        return core_schema.literal_schema(list(self.names))


Checked = TypeVar("Checked", bound=Section)
Parts = tuple[tuple[str, type[Section]], ...]  # parts of a document, each with its path; "" is the document itself


@cache
def schema_of(model: type[Section]) -> dict[str, Any]:
    """The JSON Schema of a section, cached."""
    return model.model_json_schema()


def _branches(schema: Schema, definitions: Mapping[str, Any]) -> list[Schema]:
    if "$ref" in schema:
        return _branches(definitions[schema["$ref"].rsplit("/", 1)[1]], definitions)
    if "anyOf" in schema or "oneOf" in schema:
        return [branch for option in schema.get("anyOf") or schema["oneOf"] for branch in _branches(option, definitions)]
    return [schema]


def _step(schemas: list[Schema], key: str | int, definitions: Mapping[str, Any]) -> list[Schema]:
    found = []
    for schema in schemas:
        if isinstance(key, int) and "items" in schema:
            found += _branches(schema["items"], definitions)
        elif isinstance(key, str) and key in schema.get("properties", {}):
            found += _branches(schema["properties"][key], definitions)
    return found


def _bounds(schema: Schema, noun: str) -> str:
    least, most, above = (
        int(bound) if isinstance(bound, float) and bound.is_integer() else bound
        for bound in (schema.get("minimum"), schema.get("maximum"), schema.get("exclusiveMinimum"))
    )
    if above is not None:
        return (
            Sentence("{} above {:,}", noun, above)
            if most is None
            else Sentence("{} above {:,} and at most {:,}", noun, above, most)
        )
    if least is not None:
        return Sentence("{} from {:,}", noun, least) if most is None else Sentence("{} from {:,} to {:,}", noun, least, most)
    return noun if most is None else Sentence("{} and at most {:,}", noun, most)


def _size(least: int | None, most: int | None) -> str:
    if most is None:
        return ""
    return Sentence(" of {} to {:,}", least, most) if least else Sentence(" of at most {:,}", most)


def _allowed(schemas: Sequence[Schema], definitions: Mapping[str, Any]) -> str:
    texts: list[str] = []
    for schema in schemas:
        kind = schema.get("type")
        if "enum" in schema:
            texts.append(Sentence("one of {}", joined(", ", map(str, schema["enum"]))))
        elif "const" in schema:
            texts.append(show(schema["const"]) if isinstance(schema["const"], bool) else str(schema["const"]))
        elif kind == "integer":
            texts.append(_bounds(schema, Sentence("an integer")))
        elif kind == "number":
            texts.append(_bounds(schema, Sentence("a number")))
        elif kind == "boolean":
            texts.append(Sentence("true or false"))
        elif kind == "string":
            size = _size(schema.get("minLength"), schema.get("maxLength"))
            texts.append(Sentence("text{} characters", size) if size else Sentence("text"))
        elif kind == "array":
            size = _size(schema.get("minItems"), schema.get("maxItems"))
            each = _allowed(_branches(schema.get("items", {}), definitions), definitions)
            texts.append(Sentence("a list{} of them", size) if each in texts else Sentence("a list{} ({} each)", size, each))
        elif kind == "object" and "properties" in schema:
            texts.append(Sentence("a mapping with {}", joined(", ", schema["properties"])))
        elif kind == "object":
            texts.append(Sentence("a mapping"))
    return joined(", or ", dict.fromkeys(texts))


def _wanted(schemas: Sequence[Schema]) -> str | None:
    """Description of the expected text, if its schema has one; the length alone would not help."""
    (schema,) = schemas if len(schemas) == 1 else ({},)
    return Sentence.whole(f"the {schema['description']}") if schema.get("type") == "string" and "description" in schema else None


def _path(keys: Sequence[str | int]) -> str:
    text = ""
    for key in keys:
        if isinstance(key, int):
            text += f"[{key}]"
        else:
            name = key if key.isprintable() and len(key) <= 60 else show(key)
            text += Sentence(".{}", name) if text else name
    return text


def _label(keys: Sequence[str | int], where: str, labels: Mapping[str, str]) -> str:
    paths = [".".join(filter(None, [where, _path(keys[:length])])) for length in range(len(keys), -1, -1)]
    return next((labels[path] for path in paths if path in labels), paths[0] or "document")


@cache
def _places(parts: Parts) -> Mapping[str, list[str]]:
    """Paths in a document where each key is allowed, nearest to its top first."""
    found: dict[str, list[str]] = {}
    for where, model in parts:
        document = schema_of(model)
        definitions = document.get("$defs", {})
        level = [(where, branch) for branch in _branches(document, definitions)]
        for _ in range(_DEEPEST):
            following = []
            for path, schema in level:
                for name, inner in schema.get("properties", {}).items():
                    place = Sentence("{}.{}", path, name).lstrip(".")
                    found.setdefault(name, []).append(place)
                    following += [(place, branch) for branch in _branches(inner, definitions)]
            level = following
    return {name: sorted(dict.fromkeys(places), key=lambda place: place.count(".")) for name, places in found.items()}


def _meant(key: str, here: Sequence[str], parts: Parts) -> str | None:
    """Suggestions for an unknown key: the most similar name here, and the places where its own name belongs."""
    elsewhere = _places(parts).get(key, [])
    if len(elsewhere) > _TOLD_PLACES:  # a name of many fields, such as min, does not help
        elsewhere = []
    usual = usual_name(key).replace("-", "_")
    known = next((name for name in (usual, f"num_{usual}") if name in here), None) if usual != key else None
    guess = known or nearest(key, here, *([_ALIKE] if elsewhere else []))
    told = [*([] if guess is None else [guess]), *elsewhere]
    return joined(" or ", map(repr, told)) or None


def _explain(
    error: ValidationError, model: type[Section], value: object, where: str, labels: Mapping[str, str], parts: Parts
) -> str:
    document = schema_of(model)
    definitions = document.get("$defs", {})
    best: tuple[tuple[int, bool], list[str | int], list[Schema], object, Mapping[str, Any]] | None = None
    missing: list[str] = []
    for detail in error.errors(include_url=False):
        keys: list[str | int] = []
        schemas: list[Schema] = [document]
        given: Any = value
        for key in detail["loc"]:  # names of union branches are not part of the document's path
            following = _step(schemas, key, definitions)
            if following:
                keys, schemas = [*keys, key], following
                with suppress(KeyError, IndexError, TypeError):  # a validator may have given it another form
                    given = given[key]
            elif detail["type"] == "extra_forbidden" and key == detail["loc"][-1]:
                keys = [*keys, key]
        if detail["type"] == "missing" and len(keys) == len(detail["loc"]):  # not in one of several forms
            missing.append(_label(keys, where, labels))
        # The deepest error explains most. A misspelt key explains a missing one; a validator's sentence means a right form.
        weight = (len(keys), detail["type"] in ("extra_forbidden", "value_error"))
        if best is None or weight > best[0]:
            best = (weight, keys, schemas, given, dict(detail))
    assert best is not None  # a ValidationError holds at least one error
    _, keys, schemas, given, chosen = best
    field = _label(keys, where, labels)
    if chosen["type"] == "extra_forbidden":
        names = [name for schema in schemas for name in schema.get("properties", {})]
        meant = _meant(str(keys[-1]), names, parts)
        hint = Sentence("did you mean {}? Allowed", meant) if meant else Sentence("allowed")
        return Sentence("{}: unknown key; {}: {}.", field, hint, joined(", ", names))
    if chosen["type"] == "missing":
        others = joined(", ", (name for name in dict.fromkeys(missing) if name != field))
        return Sentence(
            "{}: missing; give {}.{}",
            field,
            _wanted(schemas) or _allowed(schemas, definitions),
            Sentence(" Also missing: {}.", others) if others else "",
        )
    if chosen["type"] == "value_error":
        return Sentence("{}: {}", field, chosen["ctx"]["error"])
    names = [name for schema in schemas for name in map(str, schema.get("enum", ()))]
    suggestion = did_you_mean(given, names) if isinstance(given, str) else ""
    return Sentence("{}: {} is not allowed{}; give {}.", field, show(given), suggestion, _allowed(schemas, definitions))


def check(
    model: type[Checked], value: object, where: str = "", labels: Mapping[str, str] | None = None, parts: Parts = ()
) -> Checked:
    """``value`` as ``model``; otherwise ``InputError``. ``labels`` maps paths to the user's names for them.

    ``parts`` are the whole document's parts, if the model is one of them. The error for a key in the wrong part names the right
    part.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        if any(_is_whole(detail["input"]) for detail in error.errors(include_url=False)):
            with suppress(ValidationError):
                return model.model_validate(_with_integers(value))
        raise InputError(_explain(error, model, value, where, labels or {}, parts or ((where, model),))) from None


def _is_whole(value: object) -> bool:
    """Whether a float is an integer in JSON's sense: many languages write 8.0 for 8."""
    return isinstance(value, float) and value.is_integer() and abs(value) < 2.0**53


def _with_integers(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _with_integers(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_integers(item) for item in value]
    return int(value) if _is_whole(value) else value


def with_texts_read(model: type[Section], document: object, read: Callable[[str, str, bool], float | None]) -> Any:
    """``document`` with each text that stands where ``model`` takes numbers and no text, as ``read`` reads it.

    ``read`` gets the field's name, the text, and whether the number must be whole; None leaves the text. A name of a choice
    counts in any case. A document that is valid has no such text.
    """
    with suppress(ValidationError):
        model.model_validate(document)
        return document
    definitions = schema_of(model).get("$defs", {})

    def reading(value: Any, schemas: list[Schema], field: str) -> Any:
        if isinstance(value, Mapping):
            return {key: reading(item, _step(schemas, key, definitions), key) for key, item in value.items()}
        if isinstance(value, list):
            return [reading(item, _step(schemas, 0, definitions), field) for item in value]
        if not isinstance(value, str):
            return value
        choices = [name for schema in schemas for name in schema.get("enum", ()) if isinstance(name, str)]
        kinds = {schema.get("type") for schema in schemas if "enum" not in schema}
        if "string" in kinds or value in choices:
            return value
        alike = [name for name in choices if name.lower() == value.strip().lower()]
        if len(alike) == 1:
            return alike[0]
        number = read(field, value, "number" not in kinds) if kinds & {"integer", "number"} else None
        return value if number is None else number

    return reading(document, _branches(schema_of(model), definitions), "")
