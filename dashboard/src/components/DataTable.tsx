import { ActionIcon, Checkbox, Group, Menu, Table, Tooltip, UnstyledButton } from "@mantine/core";
import { IconArrowDown, IconArrowUp, IconArrowsSort, IconColumns3, IconDownload } from "@tabler/icons-react";
import { Fragment, useMemo, type KeyboardEvent, type ReactNode } from "react";
import { useTranslation } from "../i18n";
import { useNavigate } from "react-router";

import { useUrlChange, useUrlList, useUrlText } from "../state/url";
import { csvText } from "./csv";
import { saveFile } from "./saveFile";
import { TablePager } from "./TablePager";
import classes from "./DataTable.module.css";

const MAX_ROWS = 200; // a page, whatever the address asks for: a thousand rows of a dozen cells cost a second at every change

export interface Column<Row> {
  key: string;
  header: string;
  cell: (row: Row) => ReactNode;
  /** The plain value: what it is sorted by and what an export holds. Without it the column is neither. */
  value?: (row: Row) => string | number | boolean | null | undefined;
  /** What a CSV file calls the plain value, with its unit (default the key), or several names and values. */
  csv?: string | Readonly<Record<string, (row: Row) => string | number | boolean | null | undefined>>;
  /** Numbers stand to the right. */
  numeric?: boolean;
  /** Shown unless the reader chooses otherwise; default yes. */
  shown?: boolean;
  /** Cannot be switched off. */
  fixed?: boolean;
  help?: string;
  /** The header is for screen readers only, as over buttons. */
  hiddenHeader?: boolean;
}

interface Props<Row> {
  /** What the table holds, for screen readers and exported files. */
  label: string;
  rows: readonly Row[];
  columns: readonly Column<Row>[];
  rowKey: (row: Row) => string;
  /** What screen readers call the row's checkbox; default its key. */
  rowName?: (row: Row) => string;
  /** Where a row leads: a click, or Enter. */
  rowLink?: (row: Row) => string;
  /** `-key` sorts downwards. */
  defaultSort?: string;
  /** Begins the names of the table's parameters in the address, where a page has two tables. */
  prefix?: string;
  /** Checkboxes; the chosen keys are the caller's, usually `useUrlList("selected")`. */
  chosen?: readonly string[];
  onChoose?: (keys: readonly string[]) => void;
  /** Left of the buttons for columns and export: search, filters. */
  toolbar?: ReactNode;
  /** Rows a page, for long tables; the reader may choose another number. */
  pageSize?: number;
  /** Rows that there are, where more than `rows` are; the pager says it. */
  total?: number;
  /** Keys of rows that stay on top in any order and on every page. */
  pinned?: readonly string[];
  /** Rows that belong to a row and stand below it. They are neither sorted nor chosen nor links. */
  nested?: (row: Row) => readonly Row[];
  /** Marks rows, such as the best one. */
  rowTone?: (row: Row) => "strong" | "faint" | undefined;
  empty?: ReactNode;
}

/** A table whose order, columns and choice live in the address. Arrow keys move between rows, Enter opens, Space chooses. */
export function DataTable<Row>(props: Props<Row>) {
  const { rows, columns, rowKey, prefix = "", defaultSort = "", chosen, onChoose } = props;
  const { t } = useTranslation();
  const initial = useMemo(() => columns.filter((column) => !column.fixed && column.shown !== false).map(({ key }) => key), [columns]);
  const [names, setNames] = useUrlList(`${prefix}columns`, initial);
  const [sort] = useUrlText(`${prefix}sort`, defaultSort);
  const [sizeText] = useUrlText(`${prefix}rows`);
  const [pageText] = useUrlText(`${prefix}page`);
  const change = useUrlChange();
  const shown = columns.filter((column) => column.fixed || names.includes(column.key));
  const sorted = useMemo(() => sortedRows(rows, columns, sort), [rows, columns, sort]);
  const pinned = sorted.filter((row) => props.pinned?.includes(rowKey(row)));
  const others = pinned.length ? sorted.filter((row) => !pinned.includes(row)) : sorted;
  const total = Math.max(others.length, props.total ?? 0);
  const size = props.pageSize ? Math.min(MAX_ROWS, Number.parseInt(sizeText, 10) || props.pageSize) : Math.max(1, others.length);
  const page = Math.max(1, Math.min(Number.parseInt(pageText, 10) || 1, Math.ceil(others.length / size)));
  const visible = [...pinned, ...others.slice((page - 1) * size, page * size)];
  const isAllChosen = rows.length > 0 && rows.every((row) => chosen?.includes(rowKey(row)));

  // Another order or page size begins at the first page.
  const setSort = (name: string) => change({ [`${prefix}sort`]: name === defaultSort ? null : name, [`${prefix}page`]: null });
  const setSize = (rows: number) => change({ [`${prefix}rows`]: rows === props.pageSize ? null : String(rows), [`${prefix}page`]: null });
  const toggle = (key: string) => onChoose?.(chosen?.includes(key) ? chosen.filter((other) => other !== key) : [...(chosen ?? []), key]);
  const switchColumn = (key: string) =>
    setNames(columns.map((column) => column.key).filter((name) => names.includes(name) !== (name === key)));

  return (
    <div>
      <Group justify="space-between" gap="xs" mb="xs" align="flex-end">
        <div className={classes.toolbar}>{props.toolbar}</div>
        <Group gap={4}>
          <Menu closeOnItemClick={false} position="bottom-end">
            <Menu.Target>
              <Tooltip label={t("table.columns")}>
                <ActionIcon variant="default" size={34} aria-label={t("table.columns")}>
                  <IconColumns3 size={16} stroke={1.6} />
                </ActionIcon>
              </Tooltip>
            </Menu.Target>
            <Menu.Dropdown mah={420} style={{ overflowY: "auto" }}>
              {columns
                .filter((column) => !column.fixed)
                .map(({ key, header }) => (
                  <Menu.CheckboxItem key={key} checked={names.includes(key)} onChange={() => switchColumn(key)}>
                    {header}
                  </Menu.CheckboxItem>
                ))}
              <Menu.Divider />
              <Menu.Item onClick={() => setNames(initial)}>{t("table.defaultColumns")}</Menu.Item>
            </Menu.Dropdown>
          </Menu>
          <Menu position="bottom-end">
            <Menu.Target>
              <Tooltip label={t("table.export")}>
                <ActionIcon variant="default" size={34} aria-label={t("table.export")}>
                  <IconDownload size={16} stroke={1.6} />
                </ActionIcon>
              </Tooltip>
            </Menu.Target>
            <Menu.Dropdown>
              <Menu.Item onClick={() => saveFile(`${props.label}.csv`, "text/csv", toCsv(sorted, columns))}>CSV</Menu.Item>
              <Menu.Item onClick={() => saveFile(`${props.label}.json`, "application/json", JSON.stringify(sorted, null, 1))}>
                JSON
              </Menu.Item>
            </Menu.Dropdown>
          </Menu>
        </Group>
      </Group>
      <Table.ScrollContainer minWidth={0} type="native" className={classes.frame} tabIndex={0} role="region" aria-label={props.label}>
        <Table className={classes.table} highlightOnHover horizontalSpacing={10} verticalSpacing={7} aria-rowcount={sorted.length}>
          <Table.Thead>
            <Table.Tr>
              {onChoose && (
                <Table.Th w={38}>
                  <Checkbox
                    size="xs"
                    aria-label={t("table.chooseAll")}
                    checked={isAllChosen}
                    indeterminate={!isAllChosen && Boolean(chosen?.length)}
                    onChange={() => onChoose(isAllChosen ? [] : rows.map(rowKey))}
                  />
                </Table.Th>
              )}
              {shown.map((column) => (
                <Header key={column.key} column={column} sort={sort} setSort={setSort} />
              ))}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {visible.map((row) => (
              <Fragment key={rowKey(row)}>
                <BodyRow row={row} shown={shown} toggle={onChoose && toggle} table={props} />
                {props.nested?.(row).map((inner) => (
                  <Table.Tr key={rowKey(inner)} className={classes.nested}>
                    {onChoose && <Table.Td />}
                    <Cells row={inner} shown={shown} />
                  </Table.Tr>
                ))}
              </Fragment>
            ))}
          </Table.Tbody>
        </Table>
        {sorted.length === 0 && props.empty}
      </Table.ScrollContainer>
      {props.pageSize && others.length > 0 && total > Math.min(size, props.pageSize) && (
        <TablePager rows={others.length} total={total} size={size} page={page} onSize={setSize} onPage={(next) => change({ [`${prefix}page`]: next === 1 ? null : String(next) })} />
      )}
    </div>
  );
}

interface HeaderProps<Row> {
  column: Column<Row>;
  sort: string;
  setSort: (sort: string) => void;
}

function Header<Row>({ column, sort, setSort }: HeaderProps<Row>) {
  const { key, header, numeric, value, help, hiddenHeader } = column;
  const direction = sort === key ? "ascending" : sort === `-${key}` ? "descending" : "none";
  const Icon = { ascending: IconArrowUp, descending: IconArrowDown, none: IconArrowsSort }[direction];
  const text = help ? <Tooltip label={help}><span className={classes.helped}>{header}</span></Tooltip> : hiddenHeader ? <span className="visually-hidden">{header}</span> : header;
  return (
    <Table.Th aria-sort={value ? direction : undefined} className={numeric ? classes.numeric : undefined}>
      {value ? (
        <UnstyledButton className={classes.sort} onClick={() => setSort(direction === "ascending" ? `-${key}` : key)}>
          {text}
          <Icon size={13} stroke={1.8} className={direction === "none" ? classes.unsorted : undefined} aria-hidden />
        </UnstyledButton>
      ) : (
        text
      )}
    </Table.Th>
  );
}

interface RowProps<Row> {
  row: Row;
  shown: readonly Column<Row>[];
  toggle: ((key: string) => void) | undefined;
  table: Props<Row>;
}

function BodyRow<Row>({ row, shown, toggle, table }: RowProps<Row>) {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const key = table.rowKey(row);
  const link = table.rowLink?.(row);
  const isChosen = table.chosen?.includes(key) ?? false;

  function onKeyDown(event: KeyboardEvent<HTMLTableRowElement>) {
    if (event.target !== event.currentTarget) return;
    const rows = [...(event.currentTarget.parentElement?.querySelectorAll<HTMLElement>(":scope > [tabindex]") ?? [])];
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const next = step && rows[rows.indexOf(event.currentTarget) + step];
    if (next) next.focus();
    else if (event.key === "Enter" && link) void navigate(link);
    else if (event.key === " " && toggle) toggle(key);
    else return;
    event.preventDefault();
  }

  return (
    <Table.Tr
      tabIndex={link || toggle ? 0 : undefined}
      onKeyDown={onKeyDown}
      onClick={(event) => {
        // Buttons, links and checkboxes inside the row act for themselves; so does selecting its text.
        // Their icon may have been replaced by now: only the event remembers where it came from.
        const path = event.nativeEvent.composedPath();
        const isInside = path.slice(0, path.indexOf(event.currentTarget)).some((part) => part instanceof Element && part.matches("a,button,input,label"));
        if (link && !isInside && !window.getSelection()?.toString()) void navigate(link);
      }}
      className={[link && classes.link, isChosen && classes.chosen, table.pinned?.includes(key) && classes.pinned, classes[table.rowTone?.(row) ?? ""]].filter(Boolean).join(" ")}
    >
      {toggle && (
        <Table.Td>
          <Checkbox size="xs" checked={isChosen} onChange={() => toggle(key)} aria-label={t("table.choose", { row: table.rowName?.(row) ?? key })} />
        </Table.Td>
      )}
      <Cells row={row} shown={shown} />
    </Table.Tr>
  );
}

function Cells<Row>({ row, shown }: { row: Row; shown: readonly Column<Row>[] }) {
  return shown.map((column) => (
    <Table.Td key={column.key} className={column.numeric ? classes.numeric : undefined}>
      {column.cell(row)}
    </Table.Td>
  ));
}

function sortedRows<Row>(rows: readonly Row[], columns: readonly Column<Row>[], sort: string): readonly Row[] {
  const sign = sort.startsWith("-") ? -1 : 1;
  const value = columns.find((column) => column.key === sort.replace(/^-/, ""))?.value;
  if (!value) return rows;
  return [...rows].sort((left, right) => {
    const [a, b] = [value(left), value(right)];
    if (a == null || b == null) return a == null ? (b == null ? 0 : 1) : -1; // what is missing comes last in both directions
    return sign * (typeof a === "string" ? a.localeCompare(String(b), undefined, { numeric: true }) : Number(a) - Number(b));
  });
}

/** All columns, hidden ones too: a file is for machines and for later. */
export function toCsv<Row>(rows: readonly Row[], columns: readonly Column<Row>[]): string {
  const kept = columns.flatMap(({ key, value, csv }) => Object.entries(typeof csv === "object" ? csv : value ? { [csv ?? key]: value } : {}));
  return csvText([kept.map(([name]) => name), ...rows.map((row) => kept.map(([, value]) => value(row)))]);
}
