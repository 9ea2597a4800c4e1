import { Table, Text } from "@mantine/core";
import { Fragment } from "react";
import { useTranslation } from "../../i18n";

import { seriesColor } from "../../theme/palette";
import { usePalette } from "../../theme/usePalette";
import { points, signedPercent } from "../../units/format";
import classes from "./Compare.module.css";
import type { Item } from "./data";
import type { Row } from "./rows";

export interface Group {
  title: string;
  rows: readonly Row[];
  /** Each number with a bar, the largest as wide as its column. */
  bars?: boolean;
}

const SAME = 5e-4;
const COLUMN_PX = 136;

/** Groups of lines, an item a column; what differs is marked. */
export function ComparisonTable({ items, groups, onlyDifferent }: { items: readonly Item[]; groups: readonly Group[]; onlyDifferent: boolean }) {
  const { t } = useTranslation("compare");
  const palette = usePalette();
  return (
    <Table.ScrollContainer minWidth={0} type="native" className={classes.frame} tabIndex={0} role="region" aria-label={t("table")}>
      <Table className={classes.table} verticalSpacing={5} horizontalSpacing="sm" miw={124 + items.length * COLUMN_PX}>
        <colgroup>
          <col className={classes.labels} />
          <col span={items.length} />
        </colgroup>
        <Table.Thead>
          <Table.Tr>
            <Table.Th className={classes.label}>
              <span className="visually-hidden">{t("quantity")}</span>
            </Table.Th>
            {items.map(({ letter, study, plan }, place) => (
              <Table.Th key={letter} scope="col" className={classes.value}>
                <span className={classes.letter} style={{ borderColor: seriesColor(palette, place) }}>
                  {letter}
                </span>
                <span className={classes.columnName} title={study.name || study.model}>
                  {plan ? t("columnName", { model: study.name || study.model, rank: plan.rank }) : study.name || study.model}
                </span>
              </Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        {groups.map(({ title, rows, bars = false }) => {
          const shown = rows.filter(({ differs }) => differs || !onlyDifferent);
          if (!shown.length) return null;
          const most = Math.max(...shown.flatMap(({ values }) => values?.map((value) => value ?? 0) ?? []));
          return (
            <Table.Tbody key={title}>
              <Table.Tr>
                <Table.Th colSpan={items.length + 1} scope="rowgroup" className={classes.group}>
                  {title}
                </Table.Th>
              </Table.Tr>
              {shown.map((row) => (
                <Table.Tr key={row.key} data-differs={row.differs || undefined}>
                  <Table.Th scope="row" className={classes.label}>
                    {row.label}
                    {row.differs && <span className="visually-hidden"> ({t("differs")})</span>}
                  </Table.Th>
                  {items.map(({ letter }, place) => (
                    <Table.Td key={letter} className={classes.value}>
                      {row.texts[place]} <Difference row={row} place={place} />
                      {bars && (
                        <div className={classes.track} aria-hidden>
                          <div className={classes.bar} style={{ width: `${((row.values?.[place] ?? 0) / most) * 100}%`, background: seriesColor(palette, place) }} />
                        </div>
                      )}
                    </Table.Td>
                  ))}
                </Table.Tr>
              ))}
            </Table.Tbody>
          );
        })}
      </Table>
      {onlyDifferent && groups.every(({ rows }) => rows.every(({ differs }) => !differs)) && (
        <Text size="sm" c="dimmed" p="md">
          {t("allEqual")}
        </Text>
      )}
    </Table.ScrollContainer>
  );
}

/** How much more or less than the first item. */
function Difference({ row: { values, better, shares, differs }, place }: { row: Row; place: number }): React.ReactNode {
  const { t } = useTranslation("compare");
  const [first, own] = [values?.[0], values?.[place]];
  if (!differs || place === 0 || first == null || own == null || first === 0 || own === 0) return null;
  const fraction = own / first - 1;
  if (Math.abs(fraction) < SAME) return null;
  const isBetter = better && fraction < 0 === (better === "lower");
  return (
    <Fragment>
      <Text span size="xs" {...(better && { c: `var(--tone-${isBetter ? "good" : "bad"})` })}>
        {shares ? t("points", { points: points(own - first) }) : signedPercent(fraction)}
      </Text>
      {better && <span className="visually-hidden"> {t(isBetter ? "isBetter" : "isWorse")}</span>}
    </Fragment>
  );
}
