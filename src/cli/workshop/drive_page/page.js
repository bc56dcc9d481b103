// Draws the curves of a report from the data in the page. Text from the recording reaches the page only as
// textContent, or as text on a canvas.
'use strict';
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const root = document.documentElement;
  const colour = name => getComputedStyle(root).getPropertyValue('--' + name).trim();
  const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';
  const DASHES = [[], [7, 3], [2, 3], [10, 3, 2, 3], [4, 4], [1, 2]];
  const whole = [0, Math.max(data.seconds, data.cell_s)];
  const figure = value => value == null ? '--' : String(+value.toPrecision(5));

  // Base64 of little-endian 32-bit floats; null where there is no value.
  const unpacked = text => {
    const bytes = Uint8Array.from(atob(text), letter => letter.charCodeAt(0)), view = new DataView(bytes.buffer);
    return Array.from({length: bytes.length / 4}, (_, at) => {
      const value = view.getFloat32(4 * at, true);
      return Number.isNaN(value) ? null : value;
    });
  };
  const each = data.pairs ? 2 : 1;
  const seconds = Array.from({length: data.cells * each}, (_, at) => at * data.cell_s / each);

  const element = (kind, parent, text) => {
    const made = parent.appendChild(document.createElement(kind));
    if (text !== undefined) made.textContent = text;
    return made;
  };

  // Every plot over time has the same range.
  let plots = [], range = whole, building = true, cursor = null;
  const zoom = (from, to) => {
    const least = Math.min(4 * data.cell_s, whole[1]);
    const length = Math.min(Math.max(to - from, least), whole[1]);
    const begin = Math.min(Math.max(from, 0), whole[1] - length);
    range = [begin, begin + length];
    plots.forEach(plot => plot.setScale('x', {min: range[0], max: range[1]}));
    document.getElementById('range').textContent =
      `${range[0].toFixed(2)} s to ${range[1].toFixed(2)} s; drag to zoom, double-click for the whole run`;
    drawMap();
    showSlices();
  };
  const zoomed = plot => {
    const {min, max} = plot.scales.x;
    // uPlot applies a new scale later and then calls this hook: a scale that equals the range is ignored.
    if (building || min == null || Math.abs(min - range[0]) + Math.abs(max - range[1]) < 1e-9) return;
    zoom(min, max);
  };

  const axis = more => ({
    stroke: colour('ink'), font: FONT, grid: {stroke: colour('rule'), width: 1},
    ticks: {stroke: colour('rule'), width: 1}, ...more,
  });
  const timeAxis = () => axis({values: (_, splits) => splits.map(at => `${+at.toFixed(3)} s`), space: 70});
  const timeScale = () => ({time: false, min: range[0], max: range[1], range: (_, min, max) => [min, max]});
  const widthOf = place => Math.max(place.clientWidth, 200);
  const settings = (place, height, more) => ({
    width: widthOf(place), height, padding: [8, 28, 0, 0],
    cursor: {y: false, sync: {key: 'time'}, drag: {x: true, y: false}, points: {size: 7}},
    legend: {live: true, markers: {show: true, fill: (plot, index) => plot.series[index].stroke(plot, index), width: 0}},
    ...more,
  });
  const timeSeries = {label: 'time', value: (_, at) => at == null ? '--' : `${at.toFixed(2)} s`};

  const firstDrawn = () => {
    if (!root.dataset.firstPlotMs) root.dataset.firstPlotMs = performance.now().toFixed(0);
  };
  const make = (options, values, place) => {
    const plot = new uPlot(options, values, place);
    plots.push(plot);
    return plot;
  };

  // A row for each kind of state, and marks for events.
  const SHADES = {
    armed: 'good', degraded: 'slow', latched: 'stop', stopped: 'off', disarmed: 'off', 'self-test': 'wait', boot: 'wait',
  };
  const shadeOf = (kind, word) => {
    if (kind === 'mode') return SHADES[word] || 'off';
    if (kind === 'level') return word === '0' ? 'good' : word < '3' ? 'slow' : 'stop';
    if (kind === 'engine') return word === 'running' ? 'good' : 'stop';
    return 'stop';
  };
  const inSpan = (spans, at) => {
    let low = 0, high = spans.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (spans[middle][1] <= at) low = middle + 1; else high = middle;
    }
    return low < spans.length && spans[low][0] <= at ? spans[low][2] : null;
  };
  const lanes = data.lanes.concat([{name: 'requests, losses', kind: 'events', spans: []}]);
  const laneOf = mark => {
    const cause = mark[1] === 'trip' || mark[1] === 'fast stop';
    const found = cause ? lanes.findIndex(lane => lane.kind === 'cause' && lane.name === mark[2]) : -1;
    return found < 0 ? lanes.length - 1 : found;
  };
  const drawMark = (canvas, kind, x, y, size) => {
    canvas.beginPath();
    if (kind === 'trip') {
      canvas.moveTo(x - size, y - size); canvas.lineTo(x + size, y - size); canvas.lineTo(x, y + size);
    } else if (kind === 'fast stop') {
      canvas.rect(x - size * .8, y - size * .8, size * 1.6, size * 1.6);
    } else if (kind === 'lost') {
      canvas.moveTo(x, y - size); canvas.lineTo(x + size, y); canvas.lineTo(x, y + size); canvas.lineTo(x - size, y);
    } else {
      canvas.arc(x, y, size * .8, 0, 7);
    }
    canvas.fill();
  };
  const drawLanes = plot => {
    const {ctx: canvas, bbox: box} = plot, scale = devicePixelRatio, [from, to] = range;
    const row = box.height / lanes.length;
    const place = at => Math.min(Math.max(plot.valToPos(at, 'x', true), box.left), box.left + box.width);
    canvas.save();
    canvas.font = `${12 * scale}px ${FONT.slice(5)}`;
    canvas.textBaseline = 'middle';
    canvas.textAlign = 'left';
    lanes.forEach((lane, index) => {
      const top = box.top + index * row + row * .12, height = row * .76;
      for (const [begin, end, word] of lane.spans) {
        if (end < from || begin > to) continue;
        const left = place(begin), width = Math.max(place(end) - left, scale);
        canvas.fillStyle = colour(shadeOf(lane.kind, word));
        canvas.fillRect(left, top, width, height);
        canvas.fillStyle = colour('ink');
        if (lane.kind !== 'cause' && canvas.measureText(word).width + 8 * scale < width) {
          canvas.fillText(word, left + 4 * scale, top + height / 2);
        }
        if (lane.kind !== 'cause') canvas.fillRect(left, top, scale, height);
      }
    });
    canvas.fillStyle = colour('bad');
    for (const mark of data.marks) {
      if (mark[0] < from || mark[0] > to) continue;
      canvas.fillStyle = colour(mark[1] === 'request' ? 'link' : 'bad');
      drawMark(canvas, mark[1], place(mark[0]), box.top + (laneOf(mark) + .5) * row, 5 * scale);
    }
    canvas.restore();
    firstDrawn();
  };
  const near = at => {
    const reach = (range[1] - range[0]) / 150;
    const found = data.marks.filter(mark => Math.abs(mark[0] - at) <= reach).slice(0, 4);
    return found.map(mark => `${mark[1]} ${mark[2]}`).join(', ') || 'none';
  };
  const timeline = place => {
    const names = lanes.map(lane => lane.name), count = lanes.length;
    const at = (plot, index) => index == null ? null : seconds[index];
    const said = words => (plot, _, __, index) => at(plot, index) == null ? '--' : words(seconds[index]);
    const label = (name, words) => ({label: name, stroke: () => colour('faint'), value: said(words)});
    const none = new Array(seconds.length).fill(null);
    const causes = now => lanes.filter(lane => lane.kind === 'cause' && inSpan(lane.spans, now)).map(lane => lane.name);
    const options = settings(place, 60 + 26 * count, {
      scales: {x: timeScale(), y: {range: () => [0, count]}},
      axes: [timeAxis(), axis({
        splits: () => names.map((_, index) => count - index - .5), values: () => names, size: 118,
        grid: {show: false}, ticks: {show: false},
      })],
      series: [timeSeries,
        label('mode', now => inSpan(lanes[0].spans, now) || '--'),
        label('quality level', now => inSpan(lanes[1].spans, now) || '--'),
        label('causes', now => causes(now).join(', ') || 'none'),
        label('events', near)],
      hooks: {draw: [drawLanes], setScale: [zoomed], setCursor: [moved]},
    });
    options.legend.markers = {show: false};
    make(options, [seconds, none, none, none, none], place);
    const key = element('p', place);
    key.className = 'key';
    for (const lane of lanes.slice(0, 3)) {
      for (const word of new Set(lane.spans.map(span => span[2]))) {
        const named = element('span', key, lane.kind === 'mode' ? word : `${lane.name} ${word}`);
        const swatch = named.insertBefore(document.createElement('i'), named.firstChild);
        swatch.style.background = colour(shadeOf(lane.kind, word));
      }
    }
    element('p', place, '\u25bc a reflex trips  \u25a0 a bus thread stops the motors at once  \u25cf a request  \u25c6 slots lost');
  };

  // A band while the value was not good, and a cross where the band begins.
  const drawBad = bad => plot => {
    const {ctx: canvas, bbox: box} = plot, scale = devicePixelRatio, size = 4 * scale;
    const place = at => Math.min(Math.max(plot.valToPos(at, 'x', true), box.left), box.left + box.width);
    canvas.save();
    for (const [begin, end] of bad) {
      if (end < range[0] || begin > range[1]) continue;
      canvas.fillStyle = colour('bad-band');
      canvas.fillRect(place(begin), box.top, Math.max(place(end) - place(begin), scale), box.height);
      if (begin < range[0]) continue;
      const x = place(begin), y = box.top + 2 * size;
      canvas.strokeStyle = colour('bad');
      canvas.lineWidth = 2 * scale;
      canvas.beginPath();
      canvas.moveTo(x - size, y - size); canvas.lineTo(x + size, y + size);
      canvas.moveTo(x - size, y + size); canvas.lineTo(x + size, y - size);
      canvas.stroke();
    }
    canvas.restore();
  };
  const curves = (place, wanted) => {
    if (!wanted.series.length) return;
    const box = element('div', place);
    element('small', element('h3', box, wanted.title + ' '), wanted.unit === '1' ? '' : wanted.unit);
    const series = wanted.series.map(({name}, index) => ({
      label: name, stroke: () => colour('c' + index % 6), dash: DASHES[index % DASHES.length], width: 1.3,
      spanGaps: wanted.joined, points: {show: false}, value: (_, value) => figure(value),
    }));
    const values = wanted.series.map(({values}) => unpacked(values));
    if (wanted.bad.length) {
      series.push({label: 'not good', stroke: () => colour('bad'),
        value: (plot, _, __, index) => index == null ? '--' : inSpan(wanted.bad, seconds[index]) || 'no'});
      values.push(new Array(seconds.length).fill(null));
    }
    make(settings(box, 170, {
      scales: {x: timeScale()},
      axes: [timeAxis(), axis({size: 62})],
      series: [timeSeries, ...series],
      hooks: {drawAxes: [drawBad(wanted.bad)], draw: [firstDrawn], setScale: [zoomed], setCursor: [moved]},
    }), [seconds, ...values], box);
  };

  // Ten bars per decade; the counts have a logarithmic axis, so that the tail is visible.
  const histogram = (box, times) => {
    element('small', element('h3', box, times.title + ' '), 'count by time in us');
    const bound = bar => 10 ** (bar / 10), first = times.first - 1, count = times.counts.length + 2;
    const bars = Array.from({length: count}, (_, at) => first + at);
    const counts = [null, ...times.counts.map(many => many || null), null];
    const decades = bars.filter(bar => bar % 10 === 0 && bar >= 0);
    const named = decades.length > 1 ? decades : bars.filter((bar, at) => bar >= 0 && at % Math.ceil(count / 6) === 0);
    const most = Math.max(...times.counts);
    const word = bar => figure(+bound(Math.max(bar, 0)).toPrecision(2));
    // A bar is centred on its index, so its lower bin edge is half a bar to the left.
    const lines = [['p50', times.percentiles.p50], ['p99', times.percentiles.p99], ['p99.9', times.percentiles.p999]];
    const draw = plot => {
      const {ctx: canvas, bbox: area} = plot, scale = devicePixelRatio;
      canvas.save();
      canvas.font = `${11 * scale}px ${FONT.slice(5)}`;
      canvas.strokeStyle = canvas.fillStyle = colour('bad');
      canvas.lineWidth = scale;
      lines.forEach(([name, micros], index) => {
        const x = plot.valToPos(10 * Math.log10(Math.max(micros, 1)) - .5, 'x', true);
        canvas.setLineDash(DASHES[index].map(length => length * scale));
        canvas.beginPath(); canvas.moveTo(x, area.top); canvas.lineTo(x, area.top + area.height); canvas.stroke();
        const wide = canvas.measureText(name).width + 3 * scale;
        const left = x + wide > area.left + area.width;
        canvas.fillText(name, left ? x - wide : x + 3 * scale, area.top + (index + 1) * 12 * scale);
      });
      canvas.restore();
    };
    new uPlot({
      width: widthOf(box), height: 170, padding: [8, 28, 0, 0],
      cursor: {y: false, drag: {x: false, y: false}},
      scales: {x: {time: false, range: [first - .5, first + count - .5]}, y: {distr: 3, range: () => [.7, most * 300]}},
      axes: [axis({splits: () => named.map(bar => bar - .5), values: () => named.map(word)}), axis({size: 62,
        splits: () => [1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8].filter(many => many < most * 1.5),
        values: (_, splits) => splits.map(String), filter: (_, splits) => splits})],
      series: [
        {label: 'microseconds', value: (_, bar) => bar == null ? '--' : `${word(bar)} to ${word(bar + 1)}`},
        {label: 'count', stroke: () => colour('c0'), fill: () => colour('c0'), points: {show: false},
          paths: uPlot.paths.bars({size: [.92, 1000]}), value: (_, many) => many == null ? '0' : String(many)},
      ],
      legend: {markers: {show: false}},
      hooks: {draw: [draw]},
    }, [bars, counts], box);
  };

  // The path from above: x to the right, y up, the same scale for both.
  const path = data.path && data.path.map(unpacked);
  const timeOf = cell => cell * data.cell_s;
  let drawMap = () => {}, showPlace = () => {}, showSlices = () => {};
  const moved = plot => {
    const {idx: index} = plot.cursor;
    const at = index == null ? null : seconds[index];
    if (at === cursor) return;
    cursor = at;
    showPlace();
    showSlices();
  };
  const map = place => {
    const canvas = element('canvas', place), words = element('p', place);
    canvas.id = 'map';
    words.id = 'where';
    const [xs, ys] = path, known = xs.map((_, cell) => cell).filter(cell => xs[cell] != null && ys[cell] != null);
    const extent = cells => cells.reduce(([left, right, low, high], cell) => [
      Math.min(left, xs[cell]), Math.max(right, xs[cell]), Math.min(low, ys[cell]), Math.max(high, ys[cell]),
    ], [Infinity, -Infinity, Infinity, -Infinity]);
    const shown = () => known.filter(cell => timeOf(cell) >= range[0] && timeOf(cell) <= range[1]);
    const goals = () => data.goals.filter(goal => goal.to_s >= range[0] && goal.from_s <= range[1]);
    let screen = () => [0, 0], picture = null;
    const cellAt = at => {
      const cell = Math.min(Math.round(at / data.cell_s), xs.length - 1);
      return xs[cell] == null ? null : cell;
    };
    const line = (pen, cells) => {
      pen.beginPath();
      let last = null;
      for (const cell of cells) {
        const [x, y] = screen(xs[cell], ys[cell]);
        if (last === cell - 1) pen.lineTo(x, y); else pen.moveTo(x, y);
        last = cell;
      }
      pen.stroke();
    };
    drawMap = () => {
      const scale = devicePixelRatio, width = widthOf(place), height = Math.min(width * .7, 520);
      canvas.width = width * scale; canvas.height = height * scale; canvas.style.height = height + 'px';
      const pen = canvas.getContext('2d');
      pen.scale(scale, scale);
      const cells = shown();
      const [left, right, low, high] = goals().reduce(([left, right, low, high], {at: [x, y]}) => [
        Math.min(left, x), Math.max(right, x), Math.min(low, y), Math.max(high, y),
      ], extent(cells.length ? cells : known));
      const margin = 44, most = Math.max(right - left, high - low, .2);
      const metre = Math.min((width - 2 * margin) / Math.max(right - left, most * .02), (height - 2 * margin) / Math.max(high - low, most * .02));
      const middle = [(left + right) / 2, (low + high) / 2];
      screen = (x, y) => [width / 2 + (x - middle[0]) * metre, height / 2 - (y - middle[1]) * metre];
      const step = [.01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 20, 50, 100, 200, 500].find(step => step * metre >= 60) || 1000;
      pen.font = FONT; pen.lineWidth = 1;
      const from = [middle[0] - width / 2 / metre, middle[1] - height / 2 / metre];
      for (let x = Math.ceil(from[0] / step) * step; (x - middle[0]) * metre < width / 2; x += step) {
        const [at] = screen(x, 0);
        pen.strokeStyle = colour('rule'); pen.beginPath(); pen.moveTo(at, 0); pen.lineTo(at, height - 18); pen.stroke();
        pen.fillStyle = colour('faint'); pen.textAlign = 'center';
        if (at > 24 && at < width - 24) pen.fillText(`${+x.toFixed(2)} m`, at, height - 5);
      }
      for (let y = Math.ceil(from[1] / step) * step; (y - middle[1]) * metre < height / 2; y += step) {
        const [, at] = screen(0, y);
        if (at > height - 30) continue;
        pen.strokeStyle = colour('rule'); pen.beginPath(); pen.moveTo(0, at); pen.lineTo(width, at); pen.stroke();
        pen.fillStyle = colour('faint'); pen.textAlign = 'left'; pen.fillText(`${+y.toFixed(2)} m`, 2, at - 3);
      }
      pen.lineJoin = 'round';
      pen.strokeStyle = colour('rule'); pen.lineWidth = 1.5; line(pen, known);
      pen.strokeStyle = colour('c0'); pen.lineWidth = 2; line(pen, cells);
      pen.strokeStyle = colour('bad'); pen.lineWidth = 2;
      for (const {at_s: at} of data.stops) {
        const cell = cellAt(at);
        if (cell == null || at < range[0] || at > range[1]) continue;
        const [x, y] = screen(xs[cell], ys[cell]);
        pen.beginPath(); pen.moveTo(x - 5, y - 5); pen.lineTo(x + 5, y + 5); pen.moveTo(x - 5, y + 5); pen.lineTo(x + 5, y - 5); pen.stroke();
      }
      for (const {at, state} of goals()) {
        const [x, y] = screen(...at);
        pen.strokeStyle = pen.fillStyle = colour('c1'); pen.lineWidth = 2;
        pen.beginPath(); pen.arc(x, y, 8, 0, 7); pen.stroke();
        pen.beginPath(); pen.arc(x, y, 2.5, 0, 7); pen.fill();
        pen.textAlign = 'center'; pen.fillText(`goal: ${state}`, x, y + 22);
      }
      const end = (cell, word) => {
        const [x, y] = screen(xs[cell], ys[cell]);
        pen.fillStyle = colour('ink');
        pen.beginPath(); pen.arc(x, y, 4, 0, 7); pen.fill();
        pen.textAlign = 'left'; pen.fillText(word, x + 7, y - 7);
      };
      if (cells.length) { end(cells[0], 'begin'); end(cells[cells.length - 1], 'end'); }
      picture = document.createElement('canvas');
      [picture.width, picture.height] = [canvas.width, canvas.height];
      picture.getContext('2d').drawImage(canvas, 0, 0);
      showPlace();
    };
    showPlace = () => {
      const pen = canvas.getContext('2d'), cell = cursor == null ? null : cellAt(cursor);
      if (picture) {
        pen.save();
        pen.setTransform(1, 0, 0, 1, 0, 0);
        pen.clearRect(0, 0, canvas.width, canvas.height);
        pen.drawImage(picture, 0, 0);
        pen.restore();
      }
      words.textContent = `Each cross is a stop of the armed robot${data.goals.length ? ', each ring a goal' : ''}. Point at the path or at a curve to see where the robot was.`;
      if (cell == null) return;
      const [x, y] = screen(xs[cell], ys[cell]);
      pen.strokeStyle = colour('c1'); pen.lineWidth = 3; pen.beginPath(); pen.arc(x, y, 7, 0, 7); pen.stroke();
      words.textContent = `After ${timeOf(cell).toFixed(2)} s at ${xs[cell].toFixed(2)} m, ${ys[cell].toFixed(2)} m`;
    };
    canvas.addEventListener('mousemove', event => {
      const box = canvas.getBoundingClientRect(), [x, y] = [event.clientX - box.left, event.clientY - box.top];
      let best = null, least = 900; // 30 pixels, squared
      for (const cell of shown()) {
        const [px, py] = screen(xs[cell], ys[cell]), away = (px - x) ** 2 + (py - y) ** 2;
        if (away < least) [best, least] = [cell, away];
      }
      cursor = best == null ? null : timeOf(best);
      showPlace();
    });
    canvas.addEventListener('mouseleave', () => { cursor = null; showPlace(); });
    drawMap();
  };

  // Slices through the field: the set nearest to the cursor, or to the middle of what is shown.
  const pixels = text => Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
  const channelOf = number => `${number} (${number < 32 ? 'content' : number < 48 ? 'pattern' : 'slow'})`;
  const slices = () => {
    const canvas = document.getElementById('slices'), words = document.getElementById('sliced');
    const pen = canvas.getContext('2d');
    const rgb = name => {
      pen.fillStyle = colour(name);
      return [1, 3, 5].map(at => parseInt(pen.fillStyle.slice(at, at + 2), 16));
    };
    showSlices = () => {
      const wanted = cursor == null ? (range[0] + range[1]) / 2 : cursor;
      const away = set => Math.abs(set[0] - wanted);
      const [at, set] = data.slices.reduce((best, set) => away(set) < away(best) ? set : best);
      const side = set.width / 2, bytes = pixels(set.data), scale = devicePixelRatio;
      const across = canvas.parentNode.clientWidth >= 560 ? 4 : 2, gap = 12, head = 20;
      const box = Math.min((Math.max(canvas.parentNode.clientWidth, 200) - (across - 1) * gap) / across, 220);
      const [width, height] = [across * (box + gap) - gap, 4 / across * (box + head)];
      canvas.width = width * scale; canvas.height = height * scale;
      canvas.style.width = width + 'px';
      pen.scale(scale, scale);
      const [low, high] = [rgb('card'), rgb('c0')];
      const small = document.createElement('canvas');
      small.width = small.height = side;
      for (let slice = 0; slice < 4; slice++) {
        const image = new ImageData(side, side);
        for (let y = 0; y < side; y++) for (let x = 0; x < side; x++) {
          const share = bytes[(Math.floor(slice / 2) * side + y) * set.width + slice % 2 * side + x] / 255;
          const to = 4 * (y * side + x);
          for (let part = 0; part < 3; part++) image.data[to + part] = low[part] + share * (high[part] - low[part]);
          image.data[to + 3] = 255;
        }
        small.getContext('2d').putImageData(image, 0, 0);
        const left = slice % across * (box + gap), top = Math.floor(slice / across) * (box + head) + head;
        pen.imageSmoothingEnabled = false;
        pen.drawImage(small, left, top, box, box);
        pen.strokeStyle = colour('rule'); pen.strokeRect(left + .5, top + .5, box - 1, box - 1);
        pen.fillStyle = colour('ink'); pen.font = FONT;
        pen.fillText(`channel ${channelOf(set.channels[slice])}, z ${set.planes[slice]}`, left, top - 6);
      }
      const [least, most] = set.range.map(value => value.toFixed(2));
      words.textContent = `After ${at.toFixed(2)} s, cycle ${set.cycle}: from ${least} (pale) to ${most} (blue). `
        + 'Point at a curve to see the field at that time.';
    };
    showSlices();
  };

  // Redraws everything: at the start, after a change of the width or of the colours, and for printing.
  let turn = 0;
  const build = atOnce => {
    const mine = ++turn;
    building = true;
    plots.forEach(plot => plot.destroy());
    plots = [];
    document.querySelectorAll('.plots, #histograms').forEach(place => place.replaceChildren());
    const place = section => document.querySelector(`#${section} .plots`);
    const work = [() => timeline(place('timeline'))];
    data.plots.forEach(wanted => work.push(() => curves(place(wanted.section), wanted)));
    const bars = document.getElementById('histograms');
    data.times.forEach(times => {
      const box = element('div', bars); // make all boxes first: they share the width
      work.push(() => histogram(box, times));
    });
    if (path) work.push(() => map(place('path')));
    if (data.slices.length) work.push(slices);
    delete root.dataset.drawn;
    const next = () => {
      if (mine !== turn) return;
      const until = performance.now() + 30;
      while (work.length && (atOnce || performance.now() < until)) work.shift()();
      if (work.length) setTimeout(next, 0);
      else { building = false; zoom(...range); root.dataset.drawn = Math.ceil(performance.now()); }
    };
    next();
  };

  const on = (id, act) => document.getElementById(id).addEventListener('click', act);
  const around = (share, shift) => {
    const length = range[1] - range[0], middle = (range[0] + range[1]) / 2 + shift * length;
    zoom(middle - length * share / 2, middle + length * share / 2);
  };
  on('in', () => around(.5, 0));
  on('out', () => around(2, 0));
  on('back', () => around(1, -.5));
  on('on', () => around(1, .5));
  on('all', () => zoom(...whole));
  document.addEventListener('dblclick', event => { if (event.target.closest('.u-over')) zoom(...whole); });
  document.querySelectorAll('#summary td:first-child, #timeline td:first-child').forEach(cell => {
    const at = parseFloat(cell.textContent), button = document.createElement('button');
    button.textContent = cell.textContent;
    button.addEventListener('click', () => {
      zoom(at - 5, at + 5);
      document.getElementById('timeline').scrollIntoView();
    });
    cell.replaceChildren(button);
  });
  let width = innerWidth, waiting = 0;
  addEventListener('resize', () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => { if (innerWidth !== width) { width = innerWidth; build(false); } }, 150);
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => build(false));
  addEventListener('beforeprint', () => {
    root.classList.add('paper');
    document.body.style.width = '700px';
    build(true);
  });
  addEventListener('afterprint', () => {
    root.classList.remove('paper');
    document.body.style.width = '';
    build(false);
  });
  build(false);
})();
