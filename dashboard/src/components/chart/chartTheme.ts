import type { Palette } from "../../theme/palette";

/** ECharts' theme in the page's colours and type. */
export function chartTheme(palette: Palette) {
  const axis = {
    axisLine: { lineStyle: { color: palette.grid } },
    axisTick: { show: false },
    axisLabel: { color: palette.muted, fontSize: 12, hideOverlap: true },
    nameTextStyle: { color: palette.muted, fontSize: 12 },
    splitLine: { lineStyle: { color: palette.grid } },
    splitArea: { show: false },
  };
  // Numbers of many digits, as those of a very short step in seconds, would run into each other on a phone.
  const numbers = { ...axis, axisLine: { show: false }, axisLabel: { ...axis.axisLabel, hideOverlap: true } };
  return {
    color: [...palette.series],
    backgroundColor: "transparent",
    textStyle: { color: palette.text, fontFamily: getComputedStyle(document.body).fontFamily, fontSize: 12 },
    categoryAxis: { ...axis, splitLine: { show: false } },
    valueAxis: numbers,
    logAxis: numbers,
    timeAxis: { ...axis, axisLabel: numbers.axisLabel },
    parallel: { parallelAxisDefault: axis },
    legend: { textStyle: { color: palette.text }, inactiveColor: palette.muted, icon: "roundRect", itemWidth: 10, itemHeight: 10 },
    tooltip: {
      backgroundColor: palette.surface,
      borderColor: palette.grid,
      textStyle: { color: palette.text, fontSize: 12 },
      confine: true,
    },
    grid: { left: 12, right: 16, top: 32, bottom: 12, outerBoundsMode: "same", outerBoundsContain: "all" },
  };
}
