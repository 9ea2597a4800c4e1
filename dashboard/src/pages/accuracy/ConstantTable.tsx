import { Table, Text } from "@mantine/core";
import { marks, useTranslation } from "../../i18n";

import { number, percent } from "../../units/format";

interface Constant {
  name: string;
  value: number;
  prior: number;
  prior_log_spread: number;
  log_spread: number;
}

/** Fitted constants beside what was believed before, and how much of the doubt the runs took away. */
export function ConstantTable({ constants, of }: { constants: readonly Constant[]; of: string }) {
  const { t } = useTranslation("accuracy");
  return (
    <Table.ScrollContainer minWidth={0} type="native" tabIndex={0} role="region" aria-label={`${of}${marks().comma}${t("constant.title")}`}>
      <Table verticalSpacing={4} fz="sm">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{t("constant.name")}</Table.Th>
            {(["value", "prior", "spread", "learned"] as const).map((column) => (
              <Table.Th key={column} ta="right" style={{ whiteSpace: "nowrap" }}>
                {t(`constant.${column}`)}
              </Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {constants.map(({ name, value, prior, prior_log_spread: before, log_spread: after }) => (
            <Table.Tr key={name}>
              <Table.Td ff="monospace">
                <Text size="sm" inherit>
                  {name}
                </Text>
              </Table.Td>
              <Table.Td ta="right" className="number">
                {number(value, 4)}
              </Table.Td>
              <Table.Td ta="right" className="number">
                {number(prior, 4)}
              </Table.Td>
              <Table.Td ta="right" className="number">
                ±{percent(after)}
              </Table.Td>
              <Table.Td ta="right" className="number">
                {before > 0 ? percent(Math.max(0, 1 - after / before), 0) : "–"}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}
