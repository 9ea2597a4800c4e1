import { Table, Text } from "@mantine/core";
import { useTranslation } from "../../i18n";

import { bytes, count, seconds, secondsRange } from "../../units/format";
import type { Step } from "./steps";

type Switch = NonNullable<Step["switches"]>["to_rollout"];
type Part = Switch["parts"][number];

/** Both changes of layout by part: what each change takes, and what the first one takes, which opens what later ones keep. */
export function Switches({ switches }: { switches: NonNullable<Step["switches"]> }) {
  const { t } = useTranslation("rl");
  return (
    <Table.ScrollContainer minWidth={0} type="native" tabIndex={0} role="region" aria-label={t("switchPart.part")}>
      <Table horizontalSpacing="sm" verticalSpacing={5}>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{t("switchPart.part")}</Table.Th>
            <Table.Th ta="right">{t("switchPart.each")}</Table.Th>
            <Table.Th ta="right">{t("switchPart.first")}</Table.Th>
            <Table.Th ta="right">{t("switchPart.memory")}</Table.Th>
            <Table.Th ta="right">{t("switchPart.count")}</Table.Th>
          </Table.Tr>
        </Table.Thead>
        {(["to_rollout", "to_train"] as const).map((side) => (
          <Table.Tbody key={side}>
            <Table.Tr fw={600}>
              <Table.Th scope="rowgroup">{t(`switchPart.${side}`)}</Table.Th>
              <Times of={switches[side]} />
              <Table.Td />
              <Table.Td />
            </Table.Tr>
            {switches[side].parts.map((part) => (
              <Table.Tr key={part.part}>
                <Table.Td pl="lg">{t(`switchPart.${part.part}`, { defaultValue: part.part })}</Table.Td>
                <Times of={part} />
                <Table.Td ta="right" className="number">
                  {part.device_bytes > 0 && bytes(part.device_bytes)}
                </Table.Td>
                <Table.Td ta="right" className="number">
                  {part.count > 0 && count(part.count)}
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        ))}
      </Table>
    </Table.ScrollContainer>
  );
}

/** Seconds of each change and of the first, with the range of those that nobody stated. */
function Times({ of }: { of: Switch | Part }) {
  return (
    <>
      <Time value={of.seconds} low={of.low_s} high={of.high_s} />
      <Time value={of.first_s} low={of.first_low_s} high={of.first_high_s} />
    </>
  );
}

function Time({ value, low, high }: { value: number; low: number; high: number }) {
  return (
    <Table.Td ta="right" className="number">
      {seconds(value, 3)}
      {low < high && (
        <Text size="xs" c="dimmed" fw={400}>
          {secondsRange(low, high)}
        </Text>
      )}
    </Table.Td>
  );
}
