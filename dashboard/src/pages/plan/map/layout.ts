/** Where each cell of the map stands: a device, or as many as share a node or a domain where single ones are too small to see. */

const MOST_HEIGHT = 640;
const LARGEST_PX = 24;
const SMALLEST_PX = 6;
const MARGIN_PX = 2; // for the frame of a cell at the edge
const WIDEST_BLOCK = 16;
const MOST_SECTIONS = 32;

export interface MapLayout {
  /** Devices of a cell; 1 where each has its own. */
  perCell: number;
  /** Devices of a block of cells that stand together. */
  perBlock: number;
  cells: number;
  /** Side of a cell. */
  size: number;
  height: number;
  x: Float32Array;
  y: Float32Array;
}

interface Nest {
  cell: number;
  block: number;
  /** Each begins a row of its own. */
  section: number;
}

/** Groups of devices, from one to all, each a multiple of the one before. */
function nested(devices: number, perNode: number, domains: readonly (number | null)[]): number[] {
  const found = [1];
  for (const held of [perNode, ...domains].map((each) => Math.min(each ?? devices, devices)).sort((a, b) => a - b)) {
    const inner = found.at(-1) ?? 1;
    if (held > inner && held >= perNode && held % inner === 0) found.push(held);
  }
  if (found.at(-1) !== devices) found.push(devices);
  return found;
}

export function arrangeMap(devices: number, perNode: number, domains: readonly (number | null)[], width: number): MapLayout {
  const levels = nested(devices, Math.min(perNode, devices), domains);
  const nests: Nest[] = levels.slice(0, -1).map((cell, place) => {
    const [block = devices, section = devices] = [levels[place + 1], levels[place + 2]];
    return { cell, block, section: devices / section > MOST_SECTIONS ? devices : section };
  });
  for (let cell = (levels.at(-2) ?? 1) * 2; cell < devices; cell *= 2) nests.push({ cell, block: devices, section: devices });
  for (const nest of nests.filter(({ cell }) => (devices / cell) * SMALLEST_PX ** 2 <= width * MOST_HEIGHT))
    for (let pitch = LARGEST_PX; pitch >= SMALLEST_PX; pitch--) {
      const found = placed(devices, nest, width - 2 * MARGIN_PX, pitch);
      if (found.height <= MOST_HEIGHT) return found;
    }
  return placed(devices, { cell: devices, block: devices, section: devices }, width - 2 * MARGIN_PX, LARGEST_PX);
}

function placed(devices: number, { cell, block, section }: Nest, width: number, pitch: number): MapLayout {
  const cells = Math.ceil(devices / cell);
  const [inBlock, inSection] = [Math.ceil(block / cell), Math.ceil(section / block)];
  const gap = Math.max(3, Math.round(pitch / 3));
  const fit = Math.max(1, Math.floor(width / pitch));
  // A block that is all there is takes the width.
  const columns = block >= devices ? Math.min(inBlock, fit) : Math.min(inBlock, WIDEST_BLOCK, fit);
  const rows = Math.ceil(inBlock / columns);
  const across = Math.max(1, Math.floor((width + gap) / (columns * pitch + gap)));
  const tall = rows * pitch + gap;
  const [sectionTall, between] = [Math.ceil(inSection / across) * tall, section >= devices ? 0 : gap * 2];
  const [x, y] = [new Float32Array(cells), new Float32Array(cells)];
  let height = 0;
  for (let each = 0; each < cells; each++) {
    const ordinal = Math.floor(each / inBlock);
    const [part, place, inside] = [Math.floor(ordinal / inSection), ordinal % inSection, each % inBlock];
    x[each] = MARGIN_PX + (place % across) * (columns * pitch + gap) + (inside % columns) * pitch;
    y[each] = MARGIN_PX + part * (sectionTall + between) + Math.floor(place / across) * tall + Math.floor(inside / columns) * pitch;
    height = Math.max(height, (y[each] ?? 0) + pitch + MARGIN_PX);
  }
  return { perCell: cell, perBlock: block, cells, size: pitch - (pitch > 9 ? 2 : 1), height, x, y };
}

/** The cell under a point, or null. */
export function cellUnder({ cells, size, x, y }: MapLayout, left: number, top: number): number | null {
  for (let each = 0; each < cells; each++) {
    const [dx, dy] = [left - (x[each] ?? 0), top - (y[each] ?? 0)];
    if (dx >= -1 && dy >= -1 && dx <= size + 1 && dy <= size + 1) return each;
  }
  return null;
}

/** The cell that an arrow, Page or End key leads to. */
export function cellAfter(layout: MapLayout, cell: number, key: string): number | null {
  const { cells, perBlock, perCell, x, y } = layout;
  const block = Math.max(1, Math.round(perBlock / perCell));
  const to = { ArrowLeft: cell - 1, ArrowRight: cell + 1, PageUp: cell - block, PageDown: cell + block, Home: 0, End: cells - 1 }[key];
  if (to !== undefined) return Math.max(0, Math.min(cells - 1, to));
  if (key !== "ArrowUp" && key !== "ArrowDown") return null;
  const [left, top] = [x[cell] ?? 0, y[cell] ?? 0];
  let best = cell;
  let nearest = Infinity;
  for (let each = 0; each < cells; each++) {
    const down = ((y[each] ?? 0) - top) * (key === "ArrowDown" ? 1 : -1);
    const away = down * 1e4 + Math.abs((x[each] ?? 0) - left);
    if (down > 0 && away < nearest) [best, nearest] = [each, away];
  }
  return best;
}
