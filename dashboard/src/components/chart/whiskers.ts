/** Intervals on a chart: a line from one end to the other, of the colour of its points. */

type Ends = readonly [x: number, y: number, otherX: number, otherY: number];

interface Drawing {
  value: (dimension: number) => number;
  coord: (point: [number, number]) => [number, number];
}

const CAP_PX = 4;

/** A series of ECharts. A line that stands upright has caps; one that leans shows by its ends alone. */
export function whiskers(name: string, color: string, ends: readonly Ends[]) {
  return {
    type: "custom",
    name,
    silent: true,
    z: 1,
    encode: { x: [0, 2], y: [1, 3] },
    itemStyle: { color },
    data: ends.map((each) => [...each]),
    renderItem: (_: unknown, api: Drawing) => {
      const [x1, y1] = api.coord([api.value(0), api.value(1)]);
      const [x2, y2] = api.coord([api.value(2), api.value(3)]);
      const line = (shape: { x1: number; y1: number; x2: number; y2: number }) => ({
        type: "line",
        shape,
        style: { stroke: color, lineWidth: 1.5, opacity: 0.55 },
      });
      const caps = Math.abs(x1 - x2) < 1 ? [y1, y2].map((y) => line({ x1: x1 - CAP_PX, y1: y, x2: x1 + CAP_PX, y2: y })) : [];
      return { type: "group", children: [line({ x1, y1, x2, y2 }), ...caps] };
    },
  };
}
