import { ActionIcon, Menu, Tooltip } from "@mantine/core";
import { IconDownload } from "@tabler/icons-react";
import { marks, useTranslation } from "../i18n";

import type { Picture } from "./chart/picture";
import { csvText } from "./csv";
import { fileName, saveFile } from "./saveFile";

interface Props {
  /** Of the chart: names the files. */
  title: string;
  /** Null where the chart is not drawn just now: its data alone is saved. */
  picture: Picture | null;
  data?: Picture["numbers"] | undefined;
  size?: number;
}

/** A chart as a file: picture, drawing, data. */
export function SaveMenu({ title, picture, data, size = 30 }: Props) {
  const { t } = useTranslation();
  const numbers = data ?? picture?.numbers;
  if (!numbers) return null;
  const name = fileName(title);
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <Tooltip label={t("chart.save")}>
          <ActionIcon variant="default" size={size} aria-label={`${title}${marks().colon}${t("chart.save")}`}>
            <IconDownload size={16} stroke={1.6} />
          </ActionIcon>
        </Tooltip>
      </Menu.Target>
      <Menu.Dropdown>
        {picture && (
          <>
            <Menu.Item onClick={() => void picture.png().then((blob) => saveFile(`${name}.png`, "image/png", blob))}>{t("chart.png")}</Menu.Item>
            <Menu.Item onClick={() => void picture.svg().then((text) => saveFile(`${name}.svg`, "image/svg+xml", text))}>{t("chart.svg")}</Menu.Item>
          </>
        )}
        <Menu.Item onClick={() => saveFile(`${name}.csv`, "text/csv", csvText(numbers()))}>{t("chart.csv")}</Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
