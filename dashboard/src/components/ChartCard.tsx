import { ActionIcon, Card, Table, Tooltip } from "@mantine/core";
import { IconChartBar, IconTable } from "@tabler/icons-react";
import { useState, type ReactNode } from "react";
import { marks, useTranslation } from "../i18n";

import { PictureOf, type Picture } from "./chart/picture";
import { CardHead } from "./CardHead";
import { useUrlList } from "../state/url";
import { fileName } from "./saveFile";
import { SaveMenu } from "./SaveMenu";
import classes from "./ChartCard.module.css";

interface Props {
  title: string;
  subtitle?: ReactNode;
  /** Controls of the chart. */
  actions?: ReactNode;
  /** The numbers of the chart: the reader can switch to them. The first column names the row. */
  table?: { columns: readonly string[]; rows: readonly (readonly string[])[] };
  /** What the file of its data holds, a line of names first; default the table, else what the chart's series hold. */
  data?: Picture["numbers"];
  children: ReactNode;
}

/** A chart under its title, with a switch to its numbers, and itself as a file: picture, drawing, data. */
export function ChartCard({ title, subtitle, actions, table, data, children }: Props) {
  const { t } = useTranslation();
  // In the address by its title, so that a link shows what the reader saw: in another language it shows the chart.
  const [tables, setTables] = useUrlList("tables");
  const name = fileName(title);
  const isTable = tables.includes(name);
  const [picture, setPicture] = useState<Picture | null>(null);
  const switchTo = t(isTable ? "chart.asChart" : "chart.asTable");
  const Icon = isTable ? IconChartBar : IconTable;
  return (
    <Card className={classes.card}>
      <CardHead title={title} help={subtitle}>
        {actions}
        {table && (
          <Tooltip label={switchTo}>
            <ActionIcon variant="default" size={30} aria-label={`${title}${marks().colon}${switchTo}`} aria-pressed={isTable} onClick={() => setTables(isTable ? tables.filter((other) => other !== name) : [...tables, name])}>
              <Icon size={16} stroke={1.6} />
            </ActionIcon>
          </Tooltip>
        )}
        <SaveMenu title={title} picture={picture} data={data ?? (table && (() => [table.columns, ...table.rows]))} />
      </CardHead>
      {table && isTable ? (
        <Table.ScrollContainer minWidth={0} mah={420} type="native" tabIndex={0} role="region" aria-label={title} className={classes.numbers}>
          <Table stickyHeader verticalSpacing={4} horizontalSpacing="sm">
            <Table.Thead>
              <Table.Tr>
                {table.columns.map((name, place) => (
                  <Table.Th key={name} className={place ? classes.figure : undefined}>
                    {name}
                  </Table.Th>
                ))}
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {table.rows.map((row, line) => (
                <Table.Tr key={line}>
                  {row.map((text, place) => (
                    <Table.Td key={place} className={place ? classes.figure : undefined}>
                      {text}
                    </Table.Td>
                  ))}
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      ) : (
        <PictureOf.Provider value={setPicture}>{children}</PictureOf.Provider>
      )}
    </Card>
  );
}
