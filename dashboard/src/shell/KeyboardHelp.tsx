import { Kbd, Modal, Table } from "@mantine/core";
import { useTranslation } from "../i18n";

import { PAGES } from "./shortcuts";

export function KeyboardHelp({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const { t } = useTranslation();
  const rows: [string[], string][] = [
    ...PAGES.map(({ page, key }): [string[], string] => [["g", key], t(`nav.${page}`)]),
    [["n"], t("nav.newStudy")],
    [["/"], t("keyboard.search")],
    [["↑", "↓"], t("keyboard.rows")],
    [["↵"], t("keyboard.open")],
    [["␣"], t("keyboard.select")],
    [["w", "s"], t("keyboard.zoom")],
    [["a", "d"], t("keyboard.pan")],
    [["f"], t("keyboard.toTask")],
    [["0"], t("keyboard.wholeStep")],
    [["?"], t("keyboard.title")],
  ];
  return (
    <Modal opened={opened} onClose={onClose} title={t("keyboard.title")} closeButtonProps={{ "aria-label": t("close") }}>
      <Table>
        <Table.Tbody>
          {rows.map(([keys, meaning]) => (
            <Table.Tr key={meaning}>
              <Table.Td w={100}>
                {keys.map((key) => (
                  <Kbd key={key} mr={4}>
                    {key}
                  </Kbd>
                ))}
              </Table.Td>
              <Table.Td>{meaning}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Modal>
  );
}
