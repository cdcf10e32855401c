"""Rendering of figures to a PNG file with Pillow."""

import io
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageOps, UnidentifiedImageError

from limelight.base.commands import CommandError
from limelight.cli.drawing import INK, PAPER, QUIET, Font, load_font, wrap_text
from limelight.cli.render_terminal import caption
from limelight.colours import OPACITIES, OVER, colour, text_colour
from limelight.figures import Figure, GridHeatmap, Weights, lines_of, one_line
from limelight.files import write_file
from limelight.labels import Region
from limelight.scale import FAINT, Scale

_MARGIN, _TEXT_WIDTH, _LINE = 16, 760, 22
# Minimum width of a heading with long texts; maximum number of lines of a text.
_HEADING, _HEADING_LINE, _HEADING_LINES = 480, 26, 3
_LARGEST_CELL, _LABELLED_CELL = 24, 11
# Length of a grid's longer side in pixels, a multiple of most numbers of cells.
_GRID = 336
_BETWEEN = (128, 128, 128, 90)  # lines between cells over a picture
_RAMP = 160  # of a scale
_FRAME = (213, 218, 225)
_ABSENT = (232, 235, 239)  # cells without a number, which differ from those of weight 0
_MOST_PIXELS = 40_000_000


def save(
    figures: Iterable[Figure], path: Path, *, image: bytes | None = None, heading: Mapping[str, str] | None = None
) -> None:
    """Draw figures into a PNG file, and create its folder.

    Args:
        image: the sent image, drawn beside each heat map.
        heading: texts above the figures by their kind: questions and the answer.
    Raises:
        CommandError: the picture would be too large.
        OSError: the file cannot be written.
    """
    photograph, figures = _open(image) if image else None, list(figures)
    over = [figure.heat for figure in figures if figure.heat is not None and photograph is not None]
    pictures = [_panel(figure, photograph, alone=len(over) == 1) for figure in figures]
    if not pictures:
        raise CommandError("the answer has no maps to draw")
    # The sent image stands once on the sheet, beside its only map or after several.
    if photograph is not None and len(over) > 1:
        pictures.append(_overlaid(over[0], photograph, figures[0].scale)[0])
    texts = {one_line(name): one_line(" ".join(text.split())) for name, text in (heading or {}).items()}
    sheet = _with_heading(_arrange(pictures), texts)
    # Write the file atomically.
    buffer = io.BytesIO()
    sheet.save(buffer, format="PNG", optimize=True)
    write_file(path, buffer.getvalue())


def _panel(figure: Figure, photograph: Image.Image | None, *, alone: bool) -> Image.Image:
    if figure.heat is not None:
        body = _grid(figure, figure.heat, photograph, alone=alone)
    elif figure.matrix is not None:
        body = _matrix(figure.matrix.weights, figure.matrix.queries, figure.matrix.keys, figure.scale)
    else:
        body = _shaded(figure)
    scale = _scale(figure, is_over=figure.heat is not None and photograph is not None)
    font, small = load_font(15), load_font(12)
    width = max(
        body.width,
        scale.width,
        round(font.getlength(figure.title)),
        *(round(small.getlength(note)) for note in figure.notes),
    )
    height = body.height + _LINE * (2 + len(figure.notes)) + 6
    _check_size(height, width)
    panel = Image.new("RGB", (width, height), PAPER)
    draw = ImageDraw.Draw(panel)
    draw.text((0, 0), figure.title, INK, font)
    panel.paste(body, (0, _LINE + 6))
    for line, note in enumerate(figure.notes):
        draw.text((0, body.height + _LINE * (1 + line) + 8), note, QUIET, small)
    panel.paste(scale, (0, panel.height - _LINE))
    return panel


def _matrix(weights: Weights, queries: Sequence[str], keys: Sequence[str], scale: Scale) -> Image.Image:
    """Draw a matrix [query, key]. Queries are rows; labels that would be illegible are omitted."""
    rows, columns = weights.shape
    cell = max(1, min(_LARGEST_CELL, 1000 // max(rows, columns)))
    _check_size(rows * cell, columns * cell)
    labelled = cell >= _LABELLED_CELL
    font = load_font(min(13, cell - 1)) if labelled else load_font(12)
    left = 8 + _widest(queries, font) if labelled else 0
    top = 8 + _widest(keys, font) if labelled else 0
    picture = Image.new("RGB", (left + columns * cell, top + rows * cell), PAPER)
    picture.paste(_cells(weights, cell, scale), (left, top))
    if labelled:
        draw = ImageDraw.Draw(picture)
        for row, label in enumerate(queries):
            draw.text((left - 6, top + (row + 0.5) * cell), _short(label), INK, font, anchor="rm")
        # Pillow draws only horizontal text, so draw it and rotate.
        flat = Image.new("RGB", (top, columns * cell), PAPER)
        draw = ImageDraw.Draw(flat)
        for column, label in enumerate(keys):
            draw.text((6, (column + 0.5) * cell), _short(label), INK, font, anchor="lm")
        picture.paste(flat.transpose(Image.Transpose.ROTATE_90), (left, 0))
    return picture


def _grid(figure: Figure, heat: GridHeatmap, photograph: Image.Image | None, *, alone: bool) -> Image.Image:
    """Draw the cells of a grid; with an image, the cells over it; alone: and the image beside them."""
    rows, columns = heat.cells.shape
    if photograph is None:
        cell = max(1, _GRID // max(rows, columns))
        _check_size(rows * cell, columns * cell)
        drawn = [_cells(heat.cells, cell, figure.scale)]
    else:
        drawn = _overlaid(heat, photograph, figure.scale)
        drawn = drawn if alone else drawn[-1:]
    note = caption(heat)
    width, height = sum(each.width for each in drawn) + 8 * (len(drawn) - 1), max(each.height for each in drawn)
    picture = Image.new("RGB", (width, height + _LINE), PAPER)
    x = 0
    for each in drawn:
        picture.paste(each, (x, 0))
        x += each.width + 8
    ImageDraw.Draw(picture).text((0, height + 4), note, QUIET, load_font(12))
    return picture


def _overlaid(heat: GridHeatmap, photograph: Image.Image, scale: Scale) -> list[Image.Image]:
    """Draw the image, and the image overlaid with the cells, at one scale."""
    region = heat.region or Region(0, 0, photograph.width, photograph.height)
    # Padding makes the cells larger than the image, cropping makes them smaller.
    left, top = min(0.0, region.left), min(0.0, region.top)
    right, bottom = max(photograph.width, region.right), max(photograph.height, region.bottom)
    wide, high = region.right - region.left, region.bottom - region.top
    if wide <= 0 or high <= 0:
        return [_cells(heat.cells, max(1, _GRID // max(heat.cells.shape)), scale)]
    zoom = min(_GRID / max(wide, high), 3 * _GRID / max(right - left, bottom - top))
    size = max(1, round(wide * zoom)), max(1, round(high * zoom))
    whole = Image.new("RGB", (max(1, round((right - left) * zoom)), max(1, round((bottom - top) * zoom))), PAPER)
    method = Image.Resampling.BICUBIC if photograph.width > 64 else Image.Resampling.NEAREST
    shown = max(1, round(photograph.width * zoom)), max(1, round(photograph.height * zoom))
    whole.paste(photograph.resize(shown, method), (round(-left * zoom), round(-top * zoom)))
    place = round((region.left - left) * zoom), round((region.top - top) * zoom)
    covered = whole.copy()
    # Cells without weight show the image unchanged.
    cells = _translucent(scale.strengths(heat.cells)).resize(size, Image.Resampling.NEAREST)
    covered.paste(cells, place, cells)
    rows, columns = heat.cells.shape
    lines = Image.new("RGBA", size)
    draw = ImageDraw.Draw(lines)
    for row in range(1, rows if size[1] >= 4 * rows else 0):
        draw.line((0, row * size[1] // rows, size[0], row * size[1] // rows), _BETWEEN)
    for column in range(1, columns if size[0] >= 4 * columns else 0):
        draw.line((column * size[0] // columns, 0, column * size[0] // columns, size[1]), _BETWEEN)
    covered.paste(lines, place, lines)
    return [whole, covered]


def _shaded(figure: Figure) -> Image.Image:
    """Draw words with shades, wrapped, as they were sent."""
    rows, scale = figure.rows, figure.scale
    as_code = any(len(row.gaps) and row.gaps[0].strip("\n") for row in rows)
    font, bold = load_font(14, even=as_code), load_font(14)
    gutter = 10 + max([_widest([row.label], bold) for row in rows] + [44 * any(row.weight is not None for row in rows)])
    gutter = gutter if gutter > 10 else 0
    boxes, y = list[tuple[float, int, float, str, float]](), 0
    for row, weights in zip(rows, figure.shaded, strict=True):
        lines = lines_of(row, scale.strengths(weights).tolist())
        if row.left_out is not None:
            lines[-1].append((f"  (left out: {row.left_out:.3f})", 0.0))
        first = next((number for number, parts in enumerate(lines) if parts), 0)
        for number, parts in enumerate(lines):
            if gutter and number == first:
                own = "" if row.weight is None or math.isnan(row.weight) else f"{row.weight:.3f}"
                boxes.append((0, y, gutter - 8, row.label or own, 0.0))
            x = float(gutter)
            for text, strength in parts:
                wide = font.getlength(text)
                if x + wide > _TEXT_WIDTH and x > gutter:
                    x, y = float(gutter), y + _LINE
                boxes.append((x, y, wide, text, strength))
                x += wide
            y += _LINE
        y += 4
    width = round(max((x + wide for x, _, wide, _, _ in boxes), default=1)) + 4
    _check_size(y, width)
    picture = Image.new("RGB", (width, max(y, 1)), PAPER)
    draw = ImageDraw.Draw(picture)
    for x, top, wide, text, strength in boxes:
        shaded = abs(strength) >= FAINT
        background = colour(strength, on_light=True) if shaded else PAPER
        if shaded:
            draw.rectangle((x, top, x + wide - 1, top + _LINE - 3), background)
        draw.text((x, top + (_LINE - 2) / 2), text, text_colour(background) if shaded else INK, font, anchor="lm")
    return picture


def _scale(figure: Figure, *, is_over: bool) -> Image.Image:
    """Draw the colour scale with the values at its ends; is_over: the translucent one of cells over a picture."""
    font = load_font(12)
    low, high = figure.scale.ends
    left = round(font.getlength(low)) + 6
    picture = Image.new("RGB", (left + _RAMP + 6 + round(font.getlength(high)), _LINE), PAPER)
    ramp = np.linspace(-1.0 if figure.signed else 0.0, 1.0, _RAMP, dtype=np.float32)[None]
    cells = _translucent(ramp) if is_over else _cells(ramp, 1, Scale(0.0, 1.0, figure.signed))
    cells = cells.resize((_RAMP, 10))
    picture.paste(cells, (left, 6), cells if is_over else None)
    draw = ImageDraw.Draw(picture)
    draw.rectangle((left - 1, 5, left + _RAMP, 16), outline=_FRAME)
    draw.text((0, 11), low, QUIET, font, anchor="lm")
    draw.text((left + _RAMP + 6, 11), high, QUIET, font, anchor="lm")
    return picture


def _arrange(pictures: Sequence[Image.Image], width: int = 1600) -> Image.Image:
    """Arrange panels from left to right, then down, in columns as wide as the widest panel of each."""
    for count in range(len(pictures), 0, -1):
        rows = [pictures[first : first + count] for first in range(0, len(pictures), count)]
        wide = [max(row[column].width for row in rows if column < len(row)) for column in range(count)]
        if sum(wide) + _MARGIN * (count + 1) <= width:
            break
    tall = [max(each.height for each in row) for row in rows]
    size = sum(wide) + _MARGIN * (len(wide) + 1), sum(tall) + _MARGIN * (len(rows) + 1)
    _check_size(size[1], size[0])
    sheet = Image.new("RGB", size, PAPER)
    for number, row in enumerate(rows):
        for column, picture in enumerate(row):
            left, top = sum(wide[:column]) + _MARGIN * (column + 1), sum(tall[:number]) + _MARGIN * (number + 1)
            sheet.paste(picture, (left, top))
    return sheet


def _with_heading(sheet: Image.Image, heading: Mapping[str, str]) -> Image.Image:
    """Draw the sheet below its heading: one paragraph for each text, with its name."""
    if not heading:
        return sheet
    face, small = load_font(18), load_font(13)
    left = _MARGIN + 12 + _widest(tuple(heading), small)
    width = max(sheet.width, _HEADING) - left - _MARGIN
    paragraphs = {name: wrap_text(text, face, width, most=_HEADING_LINES) for name, text in heading.items()}
    lines = [(name if line is some[0] else "", line) for name, some in paragraphs.items() for line in some]
    used = max(round(face.getlength(line)) for _, line in lines)
    top = _MARGIN + _HEADING_LINE * len(lines)
    _check_size(top + sheet.height, max(sheet.width, left + used + _MARGIN))
    whole = Image.new("RGB", (max(sheet.width, left + used + _MARGIN), top + sheet.height), PAPER)
    whole.paste(sheet, (0, top))
    draw = ImageDraw.Draw(whole)
    for number, (name, line) in enumerate(lines):
        y = _MARGIN + _HEADING_LINE * (number + 0.5)
        draw.text((_MARGIN, y), _short(name), QUIET, small, anchor="lm")
        draw.text((left, y), line, INK, face, anchor="lm")
    return whole


def _translucent(strengths: Weights) -> Image.Image:
    """Draw a pixel for each strength [row, column], to be laid over a picture."""
    least, most = OPACITIES
    pixels = np.zeros((*strengths.shape, 4), np.uint8)
    pixels[..., :3] = np.where((strengths < 0)[..., None], OVER[1], OVER[0])
    is_seen = np.abs(strengths) >= FAINT
    pixels[..., 3] = np.where(is_seen, np.rint(255 * (least + (most - least) * np.abs(strengths))), 0)
    return Image.fromarray(pixels)


def _cells(weights: Weights, cell: int, scale: Scale) -> Image.Image:
    """Draw cells of a size in pixels; those without a number are grey."""
    palette = np.array([colour(step / 255, on_light=True) for step in range(-255, 256)], np.uint8)
    shades = palette[255 + np.rint(scale.strengths(weights) * 255).astype(int)]
    shades[np.isnan(weights)] = _ABSENT
    return Image.fromarray(shades.repeat(cell, axis=0).repeat(cell, axis=1))


def _open(image: bytes) -> Image.Image | None:
    """Open the sent image, on white and with EXIF orientation applied, as the server does.

    Returns None if this Pillow cannot read it; the figures are drawn without it.
    """
    try:
        turned = ImageOps.exif_transpose(Image.open(io.BytesIO(image)))
        if not turned.has_transparency_data:
            return turned.convert("RGB")
        whole = turned.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", whole.size, "white"), whole).convert("RGB")
    except (UnidentifiedImageError, OSError, Image.DecompressionBombError):
        return None


def _check_size(height: int, width: int) -> None:
    if height * width > _MOST_PIXELS:
        raise CommandError(
            f"the picture would have {width} x {height} pixels: choose maps with --map, --layer or --head"
        )


def _widest(labels: Sequence[str], font: Font) -> int:
    return max((round(font.getlength(_short(label))) for label in labels), default=0)


def _short(label: str) -> str:
    return label if len(label) <= 24 else label[:23] + "…"
