import { ActionIcon, Menu } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { IconArchive, IconArchiveOff, IconArrowsLeftRight, IconCopyPlus, IconDots, IconPencil, IconPlayerPlay, IconPlayerStop, IconTrash } from "@tabler/icons-react";
import { useQueryClient } from "@tanstack/react-query";
import { marks, useTranslation } from "../../i18n";
import { Link } from "react-router";

import { answered, api } from "../../api/client";
import { toApiError } from "../../api/problem";
import { FINISHED, type ListedStudy } from "../../api/queries";
import { nameOf } from "../../components/labels/labels";

/** What can be done with one study. */
export function StudyMenu({ study, isMine, onDelete, onEdit }: { study: ListedStudy; isMine: boolean; onDelete: () => void; onEdit: () => void }) {
  const { t } = useTranslation("studies");
  const queries = useQueryClient();
  const params = { path: { study_id: study.id } };

  async function act(request: () => Promise<unknown>) {
    try {
      await request();
    } catch (error) {
      notifications.show({ color: "red", title: t("actionFailed"), message: toApiError(error).message });
    }
    await queries.invalidateQueries({ queryKey: ["studies"] });
  }

  return (
    <Menu position="bottom-end" width={200}>
      <Menu.Target>
        <ActionIcon variant="subtle" color="gray" aria-label={t("actionsOf", { study: `${nameOf(study)}${marks().comma}${study.id}` })}>
          <IconDots size={16} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        {study.kind === "search" && (
          <>
            <Menu.Item component={Link} to={`/studies/new?from=${study.id}`} leftSection={<IconCopyPlus size={15} />}>
              {t("action.again")}
            </Menu.Item>
            <Menu.Item component={Link} to={`/compare?studies=${study.id}`} leftSection={<IconArrowsLeftRight size={15} />}>
              {t("action.compare")}
            </Menu.Item>
          </>
        )}
        {study.kind === "sweep" && (
          <Menu.Item component={Link} to={`/sweep?from=${study.id}`} leftSection={<IconCopyPlus size={15} />}>
            {t("action.again")}
          </Menu.Item>
        )}
        {isMine && (
          <>
            <Menu.Item leftSection={<IconPencil size={15} />} onClick={onEdit}>
              {t("action.edit")}
            </Menu.Item>
            <Menu.Item
              leftSection={study.archived ? <IconArchiveOff size={15} /> : <IconArchive size={15} />}
              onClick={() => void act(() => answered(api.PATCH("/v1/studies/{study_id}", { params, body: { archived: !study.archived } })))}
            >
              {t(study.archived ? "action.unarchive" : "action.archive")}
            </Menu.Item>
          </>
        )}
        {!FINISHED.includes(study.state) && (
          <Menu.Item
            leftSection={<IconPlayerStop size={15} />}
            disabled={study.cancel_requested}
            onClick={() => void act(() => answered(api.POST("/v1/studies/{study_id}:cancel", { params })))}
          >
            {t("action.cancel")}
          </Menu.Item>
        )}
        {(study.state === "cancelled" || study.state === "failed") && (
          <Menu.Item
            leftSection={<IconPlayerPlay size={15} />}
            onClick={() => void act(() => answered(api.POST("/v1/studies/{study_id}:resume", { params })))}
          >
            {t("action.resume")}
          </Menu.Item>
        )}
        <Menu.Divider />
        <Menu.Item color="red" leftSection={<IconTrash size={15} />} onClick={onDelete}>
          {t("action.delete")}
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
