import { Code, Group, Modal, Radio, Stack, Text } from "@mantine/core";
import { useState } from "react";

import type { ListedStudy } from "../../api/queries";
import { useTranslation } from "../../i18n";
import { CopyButton } from "../CopyButton";
import { ErrorState } from "../ErrorState";
import { useChange } from "./change";

type Visibility = ListedStudy["visibility"];
const VISIBILITIES = ["private", "link", "public"] as const;

interface Props {
  study: Pick<ListedStudy, "id" | "owner" | "visibility">;
  isMine: boolean;
  opened: boolean;
  onClose: () => void;
}

/** Who sees a study, and the link to send. */
export function ShareDialog({ study, isMine, opened, onClose }: Props) {
  const { t } = useTranslation("labels");
  const { mutate, error } = useChange(study.id);
  const [wanted, setWanted] = useState<Visibility | null>(null); // until the server has it
  const address = `${window.location.origin}/studies/${study.id}`;

  function share(visibility: Visibility) {
    setWanted(visibility);
    mutate({ visibility }, { onSettled: () => setWanted(null) });
  }
  return (
    <Modal opened={opened} onClose={onClose} title={t("share.titleOf")} closeButtonProps={{ "aria-label": t("common:close") }}>
      <Stack>
        {study.owner === null ? (
          <Text size="sm">{t("share.nobody")}</Text>
        ) : (
          <Radio.Group label={t("share.who")} value={wanted ?? study.visibility} onChange={(visibility) => share(visibility as Visibility)}>
            <Stack gap="xs" mt="xs">
              {VISIBILITIES.map((visibility) => (
                <Radio
                  key={visibility}
                  value={visibility}
                  disabled={!isMine}
                  label={t(`share.${visibility}`)}
                  description={t(`share.${visibility}Help`)}
                />
              ))}
            </Stack>
          </Radio.Group>
        )}
        {error && <ErrorState error={error} />}
        {(study.owner === null || study.visibility !== "private") && (
          <Stack gap={6}>
            <Text size="sm" fw={550}>
              {t("share.address")}
            </Text>
            <Code style={{ overflowWrap: "anywhere" }}>{address}</Code>
            <Group>
              <CopyButton text={address} label={t("share.copy")} />
            </Group>
          </Stack>
        )}
      </Stack>
    </Modal>
  );
}
