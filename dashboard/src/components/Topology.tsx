import { marks, useTranslation } from "../i18n";

import { bytesPerSecond, count } from "../units/format";
import { levels, tierName, type Level, type Tier } from "./tiers";
import classes from "./Topology.module.css";

const MAX_DEVICES_DRAWN = 16;
const MAX_GROUPS_DRAWN = 4;

interface Props {
  tiers: readonly Tier[];
  numDevices: number;
  /** What a device is, such as 910B3. */
  device: string;
}

/** A cluster as boxes in boxes, one a network tier, each with its bandwidth; what is alike is drawn a few times and counted. */
export function Topology({ tiers, numDevices, device }: Props) {
  const { t } = useTranslation();
  const all = levels(tiers, numDevices);
  const words = all
    .filter((level) => level.isUsed)
    .map(({ tier, devices }) =>
      t("topology.tier", { name: tierName(tier.name), count: devices, devices: count(devices), bandwidth: bytesPerSecond(tier.bandwidth_bytes_per_s) }),
    );
  return (
    <figure className={classes.figure} role="img" aria-label={[t("topology.of", { count: numDevices, devices: count(numDevices), device }), ...words].join(marks().semicolon)}>
      <Domain levels={all} depth={all.length - 1} isFirst device={device} />
    </figure>
  );
}

interface DomainProps {
  levels: readonly Level[];
  depth: number;
  isFirst: boolean;
  device: string;
}

function Domain({ levels: all, depth, isFirst, device }: DomainProps) {
  const { t } = useTranslation();
  const level = all[depth];
  if (!level) return null;
  const { tier, members, devices, isUsed } = level;
  // Only the first of equal boxes is drawn in full.
  const drawn = Math.min(members, depth === 0 ? MAX_DEVICES_DRAWN : isFirst ? (depth === 1 ? MAX_GROUPS_DRAWN : 2) : 1);
  const left = members - drawn;
  return (
    <div className={classes.domain} data-depth={Math.min(depth, 3)} data-used={isUsed}>
      {isFirst && (
        <div className={classes.caption}>
          <strong>{tierName(tier.name)}</strong>
          {isUsed ? (
            <>
              <span className="number">{bytesPerSecond(tier.bandwidth_bytes_per_s)}</span>
              <span>{t("topology.devices", { count: devices, devices: count(devices) })}</span>
            </>
          ) : (
            <span>{t("topology.unused")}</span>
          )}
        </div>
      )}
      <div
        className={depth === 0 ? classes.devices : classes.members}
        {...(depth === 0 && { style: { gridTemplateColumns: `repeat(${Math.min(drawn, 8)}, 13px) auto` } })}
      >
        {Array.from({ length: drawn }, (_, index) =>
          depth === 0 ? (
            <span key={index} className={classes.device} title={device} />
          ) : (
            <Domain key={index} levels={all} depth={depth - 1} isFirst={isFirst && index === 0} device={device} />
          ),
        )}
        {left > 0 && <span className={`number ${classes.more}`}>+{count(left)}</span>}
      </div>
    </div>
  );
}
