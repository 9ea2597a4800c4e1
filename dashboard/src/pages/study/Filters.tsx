import { Button, Checkbox, Group, Popover, RangeSlider, ScrollArea, Stack, Text, TextInput } from "@mantine/core";
import { IconFilter, IconSearch, IconX } from "@tabler/icons-react";
import { marks, useTranslation } from "../../i18n";

import { bytes, percent, seconds } from "../../units/format";
import { filterOfIntervals, type Dimension, type Filter } from "./dimensions";

/** A measure's value with its unit. */
export function measureText(key: string, value: number): string {
  if (key === "step") return seconds(value);
  return key === "memory" ? bytes(value) : percent(value);
}

export function useDimensionNames(): (key: string) => string {
  const { t } = useTranslation("study");
  return (key) => t(`dimension.${key}`);
}

interface Props {
  dimensions: readonly Dimension[];
  filters: readonly Filter[];
  onFilters: (filters: readonly Filter[]) => void;
  query: string;
  onQuery: (query: string) => void;
}

/** What brushing does, for the keyboard, and what is brushed now. */
export function Filters({ dimensions, filters, onFilters, query, onQuery }: Props) {
  const { t } = useTranslation("study");
  const nameOf = useDimensionNames();
  const replace = (key: string, filter: Filter | null) => onFilters([...filters.filter((other) => other.key !== key), ...(filter ? [filter] : [])]);

  return (
    <Group gap="xs">
      <TextInput
        size="sm"
        w={{ base: "100%", xs: 240 }}
        leftSection={<IconSearch size={15} />}
        placeholder={t("filter.search")}
        aria-label={t("filter.search")}
        value={query}
        onChange={(event) => onQuery(event.currentTarget.value)}
        data-search
      />
      {dimensions.length > 0 && (
        <Popover position="bottom-start" width={320} trapFocus withinPortal>
          <Popover.Target>
            <Button variant="default" leftSection={<IconFilter size={15} />}>
              {t("filter.title")}
            </Button>
          </Popover.Target>
          <Popover.Dropdown aria-label={t("filter.title")}>
            <ScrollArea.Autosize mah={420} viewportProps={{ tabIndex: 0, role: "group", "aria-label": t("filter.title") }}>
              <Stack gap="sm" pr="sm">
                {dimensions.map((dimension) => (
                  <Editor
                    key={dimension.key}
                    dimension={dimension}
                    filter={filters.find(({ key }) => key === dimension.key)}
                    onChange={(filter) => replace(dimension.key, filter)}
                  />
                ))}
              </Stack>
            </ScrollArea.Autosize>
          </Popover.Dropdown>
        </Popover>
      )}
      {filters.map((filter) => (
        <Button
          key={filter.key}
          size="compact-sm"
          variant="light"
          rightSection={<IconX size={13} />}
          aria-label={t("filter.remove", { name: nameOf(filter.key) })}
          onClick={() => replace(filter.key, null)}
          style={{ maxWidth: "100%" }}
        >
          {nameOf(filter.key)}: {filterValues(filter)}
        </Button>
      ))}
      {filters.length > 1 && (
        <Button size="compact-sm" variant="subtle" color="gray" onClick={() => onFilters([])}>
          {t("filter.clear")}
        </Button>
      )}
    </Group>
  );
}

function filterValues(filter: Filter): string {
  return "values" in filter ? filter.values.join(marks().list) : `${measureText(filter.key, filter.low)} – ${measureText(filter.key, filter.high)}`;
}

function Editor({ dimension, filter, onChange }: { dimension: Dimension; filter: Filter | undefined; onChange: (filter: Filter | null) => void }) {
  const { t } = useTranslation("study");
  const name = useDimensionNames()(dimension.key);
  if (dimension.kind === "choice") {
    const all = dimension.values.map(String);
    const kept = filter && "values" in filter ? filter.values : all;
    const toggle = (value: string) => {
      const values = all.filter((other) => kept.includes(other) !== (other === value));
      onChange(values.length === all.length || !values.length ? null : { key: dimension.key, values });
    };
    return (
      <div role="group" aria-label={name}>
        <Text size="sm" fw={550} mb={4}>
          {name}
        </Text>
        <Group gap="xs">
          {all.map((value) => (
            <Checkbox key={value} size="xs" label={value} checked={kept.includes(value)} onChange={() => toggle(value)} />
          ))}
        </Group>
      </div>
    );
  }
  const { key, low, high } = dimension;
  const range: [number, number] = filter && "low" in filter ? [filter.low, filter.high] : [low, high];
  return (
    <div>
      <Text size="sm" fw={550}>
        {name}
      </Text>
      <RangeSlider
        size="sm"
        mx={8}
        mb={4}
        min={low}
        max={high}
        step={(high - low) / 100}
        minRange={0}
        defaultValue={range}
        key={range.join()}
        label={(value) => measureText(key, value)}
        thumbFromLabel={t("filter.from", { name })}
        thumbToLabel={t("filter.to", { name })}
        thumbProps={(index) => ({ "aria-valuetext": measureText(key, range[index] ?? low) })}
        onChangeEnd={([from, to]) => onChange(from <= low && to >= high ? null : filterOfIntervals(dimension, [[from, to]]))}
      />
      <Text size="xs" c="dimmed" className="number">
        {measureText(key, range[0])} – {measureText(key, range[1])}
      </Text>
    </div>
  );
}
