/** The map as rectangles, which a canvas and a drawing in a file share. */
import type { Palette } from "../../../theme/palette";
import { positionColors } from "../positions";
import { positionIn, positionsAmong, type Placed } from "./groups";
import type { MapLayout } from "./layout";

/** Positions that one cell shows side by side, at most. */
export const STRIPES = 8;
const FADED = 0.32;

export interface Box {
  cell: number;
  x: number;
  y: number;
  width: number;
  height: number;
  fill?: string;
  stroke?: string;
}

/** Every cell in the colour of its rank's position in the group; where its ranks differ, in stripes; where they are too many, grey. */
export function cellBoxes(layout: MapLayout, group: Placed, devices: number, palette: Palette): Box[] {
  const colors = positionColors(palette, group.size);
  const { size, perCell } = layout;
  const boxes: Box[] = [];
  for (let cell = 0; cell < layout.cells; cell++) {
    const [x, y, first] = [layout.x[cell] ?? 0, layout.y[cell] ?? 0, cell * perCell];
    const places = perCell === 1 ? [positionIn(group, first)] : positionsAmong(group, first, Math.min(perCell, devices - first), STRIPES);
    const fills = places ? places.map((place) => colors[place] ?? palette.muted) : [palette.muted];
    const width = size / fills.length;
    fills.forEach((fill, part) => boxes.push({ cell, x: x + part * width, y, width, height: size, fill }));
  }
  return boxes;
}

/** Frames around the cells of some ranks. */
export function frames(layout: MapLayout, ranks: readonly number[], stroke: string): Box[] {
  const cells = new Set(ranks.map((rank) => Math.floor(rank / layout.perCell)));
  return [...cells].map((cell) => ({ cell, x: layout.x[cell] ?? 0, y: layout.y[cell] ?? 0, width: layout.size, height: layout.size, stroke }));
}

export function paintBoxes(context: CanvasRenderingContext2D, boxes: readonly Box[]): void {
  for (const { x, y, width, height, fill, stroke } of boxes) {
    if (fill) {
      context.fillStyle = fill;
      context.fillRect(x, y, width, height);
    }
    if (stroke) {
      context.strokeStyle = stroke;
      context.lineWidth = 2;
      context.strokeRect(x, y, width, height);
    }
  }
}

/** Cells, faded where some are marked, then the marked ones again in full, then their frames. */
export function paintMap(context: CanvasRenderingContext2D, cells: CanvasImageSource, ratio: number, layout: MapLayout, marks: readonly Box[]): void {
  const { canvas } = context;
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.globalAlpha = marks.length ? FADED : 1;
  context.drawImage(cells, 0, 0);
  context.globalAlpha = 1;
  const side = layout.size * ratio;
  for (const { x, y } of marks) context.drawImage(cells, x * ratio, y * ratio, side, side, x * ratio, y * ratio, side, side);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  paintBoxes(context, marks);
}

export function mapSvg(layout: MapLayout, width: number, cells: readonly Box[], marks: readonly Box[], palette: Palette): string {
  const held = new Set(marks.map(({ cell }) => cell));
  const rectangle = (box: Box) =>
    `<rect x="${box.x.toFixed(2)}" y="${box.y.toFixed(2)}" width="${box.width.toFixed(2)}" height="${box.height.toFixed(2)}" fill="${box.fill ?? "none"}"${
      box.stroke ? ` stroke="${box.stroke}" stroke-width="2"` : marks.length && !held.has(box.cell) ? ` fill-opacity="${FADED}"` : ""
    }/>`;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${layout.height}">`,
    `<rect width="100%" height="100%" fill="${palette.surface}"/>`,
    ...[...cells, ...marks].map(rectangle),
    "</svg>",
  ].join("\n");
}
