import { marks, useTranslation } from "../../i18n";

import { levels, tierName } from "../../components/tiers";
import { seriesColor } from "../../theme/palette";
import { usePalette } from "../../theme/usePalette";
import { count } from "../../units/format";
import type { Analysis, GroupTraffic } from "./data";
import { GROUP_COLORS } from "./groupColors";
import classes from "./Plan.module.css";

const WIDTH = 1000;
const LEFT = 190;
const ROW = 30;
const TOP = 46;

/** Each group from the distance of its neighbours to its reach, over the domains of the tiers, on a scale of doublings. */
export function Placement({ analysis: { traffic, tiers }, devices }: { analysis: Analysis; devices: number }) {
  const { t } = useTranslation("plan");
  const palette = usePalette();
  const shown = levels(tiers, devices).filter(({ isUsed }) => isUsed);
  const x = (value: number) => LEFT + (Math.log2(Math.max(value, 1)) / Math.max(Math.log2(devices), 1)) * (WIDTH - LEFT - 12);
  const height = TOP + traffic.length * ROW + 26;
  const text = (group: GroupTraffic) =>
    t("network.sits", {
      group: t(`network.groups.${group.group}`),
      count: group.size,
      stride: count(group.stride),
      tiers: group.tiers.map(({ tier }) => tierName(tier)).join(" + "),
    });
  const ticks = [1, ...shown.map(({ devices: held }) => held)];
  return (
    <svg viewBox={`0 0 ${WIDTH} ${height}`} className={classes.placement} role="img" aria-label={traffic.map(text).join(marks().semicolon)}>
      {shown.map(({ tier, devices: held, members }, index) => {
        const from = Math.max(held / members, 1);
        const middle = (x(from) + x(held)) / 2;
        return (
          <g key={tier.name}>
            <rect x={x(from)} y={0} width={Math.max(x(held) - x(from), 1)} height={height - 20} fill={palette.text} opacity={index % 2 ? 0.05 : 0.1} />
            <text x={middle} y={17} textAnchor="middle" fontSize={13} fontWeight={600} fill={palette.text}>
              {tierName(tier.name)}
            </text>
            <text x={middle} y={34} textAnchor="middle" fontSize={12} fill={palette.muted}>
              {t("network.upTo", { count: held, devices: count(held) })}
            </text>
          </g>
        );
      })}
      {ticks.map((tick) => (
        <text key={tick} x={x(tick)} y={height - 4} textAnchor={tick === 1 ? "start" : "end"} fontSize={12} fill={palette.muted}>
          {count(tick)}
        </text>
      ))}
      {traffic.map((group, index) => {
        const [from, to] = [x(group.stride), x(Math.min(group.stride * group.size, devices))];
        const y = TOP + index * ROW;
        return (
          <g key={group.group}>
            <title>{text(group)}</title>
            <text x={0} y={y + 15} fontSize={13} fill={palette.text}>
              {t(`network.groups.${group.group}`)}
            </text>
            <rect x={from} y={y + 3} width={Math.max(to - from, 3)} height={17} rx={4} fill={seriesColor(palette, GROUP_COLORS[group.group])} />
            <text
              x={to + 60 > WIDTH ? from - 6 : to + 6}
              y={y + 16}
              textAnchor={to + 60 > WIDTH ? "end" : "start"}
              fontSize={12}
              fill={palette.text}
            >
              {count(group.size)}
            </text>
          </g>
        );
      })}
    </svg>
  );
}
