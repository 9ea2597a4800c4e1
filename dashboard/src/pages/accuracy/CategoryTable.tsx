import { Card, Table } from "@mantine/core";
import { useTranslation } from "../../i18n";

import { count, percent, signedPercent } from "../../units/format";
import { CardHead } from "../../components/CardHead";
import { CATEGORIES, errorsOf, summarised, type Run, type View } from "./errors";

/** Errors of the chosen runs by category; memory beside time, because few runs publish it. */
export function CategoryTable({ runs, view }: { runs: readonly Run[]; view: View }) {
  const { t } = useTranslation("accuracy");
  const rows = ["all", ...CATEGORIES].map((key) => {
    const members = key === "all" ? runs : runs.filter((run) => run.category === key);
    return { key, errors: errorsOf(members, view), memory: summarised(members.map((run) => run.memory_error_fraction).filter((error) => error !== null)) };
  });
  const columns = ["count", "median", "mean", "p90", "bias", "coverage", "memoryCount", "memoryMedian"];
  return (
    <Card component="section">
      <CardHead title={t("byCategory.title")} help={t("byCategory.help")} />
      <Table.ScrollContainer minWidth={0} type="native" tabIndex={0} role="region" aria-label={t("byCategory.title")}>
        <Table verticalSpacing={6} fz="sm" highlightOnHover>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{t("column.category")}</Table.Th>
              {columns.map((column) => (
                <Table.Th key={column} ta="right" style={{ whiteSpace: "nowrap" }}>
                  {t(`errors.${column}`)}
                </Table.Th>
              ))}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {rows.map(({ key, errors, memory }) =>
              errors ? (
                <Table.Tr key={key} fw={key === "all" ? 600 : undefined}>
                  <Table.Td style={{ whiteSpace: "nowrap" }} title={key === "all" ? undefined : t(`categoryHelp.${key}`)}>
                    {t(`category.${key}`)}
                  </Table.Td>
                  {[
                    count(errors.count),
                    percent(errors.median),
                    percent(errors.mean),
                    percent(errors.p90),
                    signedPercent(errors.bias),
                    percent(errors.coverage, 0),
                    count(memory?.count ?? 0),
                    percent(memory?.median),
                  ].map((text, place) => (
                    <Table.Td key={columns[place]} ta="right" className="number">
                      {text}
                    </Table.Td>
                  ))}
                </Table.Tr>
              ) : null,
            )}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </Card>
  );
}
