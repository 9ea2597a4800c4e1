import { Anchor, Card, Table, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "../../i18n";
import { Link } from "react-router";

import { accuracyQuery } from "../../api/queries";
import { count } from "../../units/format";

/** Which measured runs stand behind predictions on this hardware. */
export function Evidence({ name }: { name: string }) {
  const { t } = useTranslation("hardware");
  const { data } = useQuery(accuracyQuery());
  if (!data) return null;
  const rows = data.calibrations.flatMap(({ coverage }) => coverage).filter(({ hardware }) => hardware === name);
  return (
    <Card component="section">
      <Title order={2}>{t("evidence.title")}</Title>
      {rows.length === 0 ? (
        <Text size="sm" c="dimmed">
          {t("evidence.none")}
        </Text>
      ) : (
        <>
          <Text size="sm" c="dimmed">
            {t("evidence.help")} <Anchor component={Link} to={`/accuracy?hardware=${encodeURIComponent(name)}`} size="sm" underline="always">{t("evidence.link")}</Anchor>
          </Text>
          <Table.ScrollContainer minWidth={0} type="native" mt="xs" tabIndex={0} role="region" aria-label={t("evidence.title")}>
            <Table verticalSpacing={6} fz="sm">
              <Table.Thead>
                <Table.Tr>
                  {["stack", "kind", "runs", "devices", "seq"].map((column, place) => (
                    <Table.Th key={column} ta={place > 1 ? "right" : "left"} style={{ whiteSpace: "nowrap" }}>
                      {t(`evidence.column.${column}`)}
                    </Table.Th>
                  ))}
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {rows.map(({ stack, kind, num_runs, max_devices, max_seq_length }) => (
                  <Table.Tr key={`${stack} ${kind}`}>
                    <Table.Td>{stack}</Table.Td>
                    <Table.Td>{t(`common:modelKind.${kind}`, { defaultValue: kind })}</Table.Td>
                    {[num_runs, max_devices, max_seq_length].map((value, place) => (
                      <Table.Td key={place} ta="right" className="number">
                        {count(value)}
                      </Table.Td>
                    ))}
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          </Table.ScrollContainer>
        </>
      )}
    </Card>
  );
}
