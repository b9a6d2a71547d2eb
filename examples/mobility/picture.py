"""Pictures with Pillow: one of a moment, and a film of some minutes as a GIF."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from io import BytesIO

import numpy as np
from map_page import ROADS
from matplotlib.font_manager import findfont
from PIL import Image, ImageDraw, ImageFont
from scene import LIFETIME_S, SQUARE_M, Scene, Wave

GROUND, ROAD, CAR, INK, QUIET = (14, 19, 25), (54, 67, 80), (140, 156, 172), (232, 238, 244), (141, 154, 168)
DRIVER, WAVE, BRAKE = (88, 196, 246), (255, 180, 84), (255, 90, 79)
MIDDLE, WIDE = (1332.5, 1337.0), 3020.0  # the town, and room for the squares at its edge: m
FAINT, CLEAR = 9, 16  # how much a square covers what is under it, of 255
FINER = 2  # drawn so many times larger, then made smaller, which smooths lines
STRIP = 34  # under the map, for the legend, where the map is 700 wide
TELLING_S = 6  # so long a line leads from a wave to a driver who is told


def picture(scene: Scene, second: int, size: int) -> Image.Image:
    """The town at a second, `size` pixels wide."""
    image = ground(size * FINER).copy()
    brush = Brush(image)
    driving = [number for number, driver in enumerate(scene.drivers) if driver.drives(second)]
    warned = drivers_who_know(scene, second)
    for number in sorted(driving, key=lambda one: one in warned):
        interest = scene.drivers[number].interests[scene.drivers[number].interest_at(second)]
        brush.square(interest.x, interest.y, WAVE if number in warned else DRIVER, number in warned)
    alight = [wave for wave in scene.waves if wave.second <= second <= wave.second + LIFETIME_S]
    for wave in alight:
        brush.wave(wave, second - wave.second)
    rows = scene.tracks.rows_at(second)
    for row in rows[np.argsort(scene.tracks.braking[rows], kind="stable")]:
        hard = scene.tracks.braking[row]
        brush.dot(scene.tracks.x[row], scene.tracks.y[row], 2.7 if hard else 1.7, BRAKE if hard else CAR)
    places = {number: scene.tracks.place(scene.drivers[number].car, second) for number in driving}
    for told in scene.told:
        if told.first and 0 <= second - told.second < TELLING_S and told.driver in places:
            wave = scene.waves[told.wave]
            brush.line((wave.x, wave.y), places[told.driver], 1 - (second - told.second) / TELLING_S)
    for number, (x, y) in places.items():
        brush.dot(x, y, 4.6, GROUND)
        brush.dot(x, y, 3.4, WAVE if number in warned else DRIVER)
    whole = Image.new("RGB", (size, size + size * STRIP // 700), GROUND)
    whole.paste(image.resize((size, size), Image.Resampling.BOX))
    letter(whole, second, len(driving), len(warned))
    return whole


def drivers_who_know(scene: Scene, second: int) -> set[int]:
    """Those whose present interest has delivered a wave of the last minute."""
    return {
        told.driver
        for told in scene.told
        if told.second <= second <= scene.waves[told.wave].second + LIFETIME_S
        and scene.drivers[told.driver].drives(second)
        and scene.drivers[told.driver].interest_at(second) == told.interest
    }


class Brush:
    """Draws on a picture of the town. Places are metres, sizes are pixels of a picture that is 700 wide."""

    def __init__(self, image: Image.Image) -> None:
        self.draw = ImageDraw.Draw(image, "RGBA")
        self.width = image.width
        self.unit = image.width / 700

    def at(self, x: float, y: float) -> tuple[float, float]:
        scale = self.width / WIDE
        return (x - MIDDLE[0]) * scale + self.width / 2, self.width / 2 - (y - MIDDLE[1]) * scale

    def dot(self, x: float, y: float, radius: float, colour: tuple[int, ...]) -> None:
        self.draw.circle(self.at(x, y), radius * self.unit, fill=colour)

    def square(self, x: float, y: float, colour: tuple[int, int, int], warned: bool) -> None:
        half = SQUARE_M / 2
        corners = self.at(x - half, y + half), self.at(x + half, y - half)
        fill, line = (*colour, CLEAR if warned else FAINT), (*colour, 215 if warned else 120)
        self.draw.rectangle(corners, fill=fill, outline=line, width=round(1.1 * self.unit))

    def wave(self, wave: Wave, age_s: int) -> None:
        left, middle = 1 - age_s / LIFETIME_S, self.at(wave.x, wave.y)
        for ring in range(4):
            self.draw.circle(middle, (20 - 4 * ring) * self.unit, fill=(*WAVE, round(38 * left)))
        line = (*WAVE, round(70 + 185 * left))
        self.draw.circle(middle, 8 * self.unit, outline=line, width=round(1.6 * self.unit))
        if age_s < 5:  # a ring runs outwards
            colour = (*WAVE, round(255 * (1 - age_s / 5)))
            self.draw.circle(middle, 8 * (1 + age_s) * self.unit, outline=colour, width=round(1.4 * self.unit))

    def line(self, one: tuple[float, float], other: tuple[float, float], strength: float) -> None:
        ends = self.at(*one), self.at(*other)
        self.draw.line(ends, fill=(*WAVE, round(230 * strength)), width=round(1.6 * self.unit))


@cache
def ground(size: int) -> Image.Image:
    """The roads, which do not change."""
    image = Image.new("RGB", (size, size), GROUND)
    brush = Brush(image)
    for road in json.loads(ROADS.read_text()):
        points = [brush.at(x, y) for x, y in road["shape"]]
        brush.draw.line(points, fill=ROAD, width=round(0.8 * road["lanes"] ** 0.7 * brush.unit), joint="curve")
    return image


def letter(image: Image.Image, second: int, asking: int, knowing: int) -> None:
    """Title and clock in a corner where no roads are, and a legend under the map."""
    draw, unit = ImageDraw.Draw(image, "RGBA"), image.width / 700

    def text(x: float, y: float, words: str, size: float, colour: tuple[int, ...], weight: str = "normal") -> None:
        draw.text((x * unit, y * unit), words, fill=colour, font=font(round(size * unit), weight), anchor="ls")

    text(16, 28, "Waves of hard braking", 16, INK, "bold")
    text(16, 48, "around drivers who move", 16, INK, "bold")
    text(16, 84, f"{second // 60:02}:{second % 60:02}", 26, INK)
    text(16, 103, f"{asking} drivers ask, {knowing} know of a wave", 10.5, QUIET)
    y = (700 + STRIP / 2 - 4) * unit
    draw.circle((24 * unit, y), 1.9 * unit, fill=CAR)
    draw.circle((82 * unit, y), 2.9 * unit, fill=BRAKE)
    small_square(draw, 214 * unit, y, unit, DRIVER)
    draw.circle((421 * unit, y), 6 * unit, outline=WAVE, width=round(1.3 * unit))
    small_square(draw, 580 * unit, y, unit, WAVE)
    words = (
        "car",
        "car that brakes hard",
        "driver, with a square of 500 m",
        "wave of the last minute",
        "driver who knows",
    )
    for x, name in zip((32, 90, 226, 433, 592), words, strict=True):
        text(x, y / unit + 4, name, 10.5, QUIET)


def small_square(draw: ImageDraw.ImageDraw, x: float, y: float, unit: float, colour: tuple[int, int, int]) -> None:
    half = 6 * unit
    draw.rectangle((x - half, y - half, x + half, y + half), fill=(*colour, 26), outline=colour, width=round(unit))
    draw.circle((x, y), 2.6 * unit, fill=colour)


@cache
def font(size: int, weight: str) -> ImageFont.FreeTypeFont:
    """The one that matplotlib brings."""
    return ImageFont.truetype(findfont(f"DejaVu Sans:{weight}"), size)


@cache
def palette() -> Image.Image:
    """Each colour on its way into the ground, and squares that lie over each other. So rare colours keep their own."""
    fading = (ROAD, CAR, INK, QUIET, DRIVER, WAVE, BRAKE)
    colours = [mixed(GROUND, colour, step / 9) for colour in fading for step in range(10)]
    for colour, strength in ((DRIVER, FAINT), (WAVE, CLEAR)):
        squares = [mixed(GROUND, colour, 1 - (1 - strength / 255) ** number) for number in range(1, 9)]
        colours += squares
        colours += [mixed(square, road, step / 5) for square in squares for road in (ROAD, CAR) for step in range(1, 6)]
    image = Image.new("P", (1, 1))
    image.putpalette([part for colour in list(dict.fromkeys(colours))[:255] for part in colour])
    return image


def mixed(one: tuple[int, ...], other: tuple[int, ...], share: float) -> tuple[int, ...]:
    return tuple(round(a + share * (b - a)) for a, b in zip(one, other, strict=True))


def with_palette(image: Image.Image) -> Image.Image:
    return image.quantize(palette=palette(), dither=Image.Dither.NONE)


# --- a film


def busiest(scene: Scene, seconds: int) -> int:
    """The beginning of the time in which most drivers are told of something new."""
    told = np.bincount(np.array([one.second for one in scene.told if one.first], int), minlength=seconds)
    return int(np.argmax(np.convolve(told, np.ones(seconds), "valid")))


def film(scene: Scene, begin_s: int, seconds: int, size: int, say: Callable[[int], None]) -> bytes:
    """A GIF with a frame for each second, four in a second. `say` is told how many frames are drawn."""
    frames = []
    for number in range(seconds):
        frames.append(with_palette(picture(scene, begin_s + number, size)))
        say(number + 1)
    drawn = BytesIO()
    frames[0].save(drawn, "GIF", save_all=True, append_images=frames[1:], duration=250, loop=0, optimize=True)
    return drawn.getvalue()
