"""Text in the dark theme has a contrast of 4.5 to 1 with what lies behind it, by what Chromium computes, element by element."""

from __future__ import annotations

import pytest

from tests.browser.conftest import OpenView, Site, StoredPlan

PAGES = [
    "/studies",
    "/studies/new?model=deepseek-v3&hardware=atlas-900-a3-superpod&devices=1024",
    "/studies/{completed}",
    "/studies/{without_plan}",
    "/studies/{failed}",
    *(f"{{plan}}?tab={tab}" for tab in ("overview", "memory", "network", "changes", "delivery", "launch")),
    "/compare?studies={completed},{long_name}",
    "/checks/{broken_check}",
    "/accuracy",
    "/hardware/atlas-800t-a2",
    "/scripts",
]
# Texts below 4.5 to 1: colours are laid over each other with their transparency and the opacity of all that holds them, from the
# page to the text. Disabled controls are not meant to be read, and pictures (img, canvas, svg) have tests of their own.
_FAINT = """() => {
    const brush = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
    const read = (color) => {
        brush.clearRect(0, 0, 1, 1);
        brush.fillStyle = color;
        brush.fillRect(0, 0, 1, 1);
        const [r, g, b, a] = brush.getImageData(0, 0, 1, 1).data;
        return [r, g, b, a / 255];
    };
    const over = ([r, g, b, a], under) => [r, g, b].map((value, at) => value * a + under[at] * (1 - a));
    const linear = (value) => (value <= 10.31 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
    const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
    const found = [];
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    let told = 0;
    while (walk.nextNode()) {
        const text = walk.currentNode.textContent.trim();
        const holder = walk.currentNode.parentElement;
        if (!text || !holder.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
        const box = holder.getBoundingClientRect();
        if (holder.closest(":disabled, [data-disabled], [aria-disabled=true], .visually-hidden, svg") || box.width < 2) continue;
        const chain = [];
        for (let node = holder; node; node = node.parentElement) chain.unshift(node);
        let behind = [255, 255, 255];
        let opacity = 1;
        for (const node of chain) {
            const style = getComputedStyle(node);
            opacity *= Number(style.opacity);
            const [r, g, b, a] = read(style.backgroundColor);
            behind = over([r, g, b, a * opacity], behind);
        }
        const [r, g, b, a] = read(getComputedStyle(holder).color);
        const [dark, bright] = [light(behind), light(over([r, g, b, a * opacity], behind))].sort((x, y) => x - y);
        const ratio = (bright + 0.05) / (dark + 0.05);
        told += 1;
        if (ratio < 4.5) found.push(`${ratio.toFixed(2)}: ${text.slice(0, 60)} (${holder.className})`);
    }
    return [told, [...new Set(found)]];
}"""


@pytest.mark.parametrize("address", PAGES)
def test_dark_text_can_be_read(view: OpenView, site: Site, stored: StoredPlan, address: str) -> None:
    page = view(site.url, scheme="dark").open(address.format(**vars(site), plan=stored.path))
    told, faint = page.evaluate(_FAINT)
    assert told > 20
    assert faint == []


def test_faint_text_is_found(view: OpenView, site: Site) -> None:
    page = view(site.url, scheme="dark").open("/studies")
    page.evaluate("""() => {
        const box = (style, text) => `<div style="${style}">${text}</div>`;
        document.querySelector("main").innerHTML = [
            box("background: #fff; color: #777", "nearly"),
            box("background: #fff; color: #767676", "just"),
            box("background: #000", box("opacity: 0.4; color: #fff", "through")),
            box("background: rgb(0 0 0 / 50%); color: #fff", "over"),
        ].join("");
    }""")
    _, faint = page.evaluate(_FAINT)
    assert [line.split(" (")[0] for line in faint] == ["4.48: nearly", "3.66: through"]
